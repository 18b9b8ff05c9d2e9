/**
 * Passive health checks, modeled on Envoy's outlier detection: a backend whose responses fail far more often than those
 * of its peers is ejected for a while. Without this, a backend that fails quickly would look the least busy and get
 * most calls. After the ejection, the backend is on trial: if there are healthy peers, it gets one request at a time
 * until enough requests have succeeded.
 */

/** Results lose half of their weight in this time. */
const HALF_LIFE_MS = 10_000
/** The minimum time between two updates of the weights. */
const WEIGH_INTERVAL_MS = 1_000
/**
 * A healthy backend is ejected only if it has at least `FAILURES_MIN` failures, and its healthy peers have at least
 * `PEER_RESULTS_MIN` results.
 */
const FAILURES_MIN = 5
const PEER_RESULTS_MIN = 10
/**
 * In addition, the share of failures of this backend must be at least `FAILED_SHARE_MIN`, and at least
 * `TIMES_PEERS_MIN` times the share of its healthy peers.
 */
const FAILED_SHARE_MIN = 0.1
const TIMES_PEERS_MIN = 5
/**
 * The largest share of backends that may be ejected or on trial at the same time. Without this limit, all backends
 * could be ejected, each at a different time.
 */
const EJECTED_SHARE_MAX = 0.5
/**
 * The duration of an ejection doubles with each further ejection, up to `EJECTED_MS_MAX`. A random share of up to
 * `EJECTED_JITTER` is added, so that gateways do not begin to use the backend again at the same time.
 */
const EJECTED_MS = 5_000
const EJECTED_MS_MAX = 60_000
const EJECTED_JITTER = 0.2
/** If the last ejection ended longer ago than this, the next one is as short as the first. */
const EJECTIONS_RESET_MS = 300_000
/**
 * A backend on trial becomes healthy after `TRIAL_SUCCESSES` successes, and is ejected again after `TRIAL_FAILURES`
 * failures.
 */
const TRIAL_SUCCESSES = 10
const TRIAL_FAILURES = 2

export type HealthState = 'healthy' | 'ejected' | 'on_trial'

/** The results of one backend. Times are `performance.now()`. */
export class BackendHealth {
  #results = 0
  #failures = 0
  #weighedAt = 0
  /** The number of successive ejections, for the backoff. */
  #ejections = 0
  #ejectedUntil = 0
  #isHealthy = true

  state(now: number): HealthState {
    if (this.#isHealthy) return 'healthy'
    return now < this.#ejectedUntil ? 'ejected' : 'on_trial'
  }

  recordSuccess(now: number): void {
    // Results that arrive during an ejection are ignored: most of their requests were sent before it.
    if (this.state(now) === 'ejected') return
    this.#weigh(now)
    this.#results++
    if (!this.#isHealthy && this.#results - this.#failures >= TRIAL_SUCCESSES) {
      this.#isHealthy = true
    }
  }

  /** Returns true if this failure causes an ejection. */
  recordFailure(peers: readonly BackendHealth[], now: number): boolean {
    const state = this.state(now)
    if (state === 'ejected') return false
    this.#weigh(now)
    this.#results++
    this.#failures++
    const isBad =
      state === 'on_trial' ? this.#failures >= TRIAL_FAILURES : this.#isOutlier(peers, now)
    if (isBad) this.#eject(now)
    return isBad
  }

  #isOutlier(peers: readonly BackendHealth[], now: number): boolean {
    if (this.#failures < FAILURES_MIN) return false
    const healthy = peers.filter((peer) => peer.state(now) === 'healthy')
    const ejectedOrOnTrial = peers.length - healthy.length
    // This backend, which is not one of its peers, would be ejected as well.
    if (ejectedOrOnTrial + 1 > EJECTED_SHARE_MAX * (peers.length + 1)) return false
    let peerResults = 0
    let peerFailures = 0
    for (const peer of healthy) {
      peer.#weigh(now)
      peerResults += peer.#results
      peerFailures += peer.#failures
    }
    if (peerResults < PEER_RESULTS_MIN) return false
    const share = this.#failures / this.#results
    const peerShare = peerFailures / peerResults
    return share >= FAILED_SHARE_MIN && share >= TIMES_PEERS_MIN * peerShare
  }

  #eject(now: number): void {
    if (now - this.#ejectedUntil > EJECTIONS_RESET_MS) this.#ejections = 0
    const ms = Math.min(EJECTED_MS_MAX, EJECTED_MS * 2 ** this.#ejections)
    this.#ejections++
    this.#ejectedUntil = now + ms * (1 + EJECTED_JITTER * Math.random())
    this.#isHealthy = false
    this.#results = 0
    this.#failures = 0
  }

  #weigh(now: number): void {
    const ms = now - this.#weighedAt
    // The results of a trial keep their weight: otherwise, a trial with one call per minute would never end.
    if (!this.#isHealthy || ms < WEIGH_INTERVAL_MS) return
    const weight = 0.5 ** (ms / HALF_LIFE_MS)
    this.#results *= weight
    this.#failures *= weight
    this.#weighedAt = now
  }
}
