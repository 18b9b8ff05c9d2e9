/**
 * Passive health checks, modeled on Envoy's outlier detection: a backend whose responses fail far more
 * often than those of its peers is ejected for a while. Without this, a backend that fails quickly would
 * look the least busy and get most calls. Afterwards it is on trial: it gets one request at a time until
 * enough of them have succeeded.
 */

/** Results lose half of their weight in this time. */
const HALF_LIFE_MS = 10_000
/** How often results are reduced to their present weight. */
const WEIGHED_MS = 1_000
/** With fewer failures, or fewer results of peers, no backend is ejected. */
const FAILURES_MIN = 5
const PEER_RESULTS_MIN = 10
/**
 * A backend is ejected only if its share of failures is at least this, and this many times that of its
 * peers.
 */
const FAILED_SHARE_MIN = 0.1
const TIMES_PEERS_MIN = 5
/**
 * The largest share of backends that is ejected or on trial at the same time. Otherwise all could be, if
 * each failed at another moment.
 */
const EJECTED_SHARE_MAX = 0.5
/**
 * The duration of an ejection doubles with each further one. It is random, so that gateways do not use the
 * backend again at the same time.
 */
const EJECTED_MS = 5_000
const EJECTED_MS_MAX = 60_000
const EJECTED_JITTER = 0.2
/** After this long without an ejection, the next one is as short as the first. */
const FORGIVEN_MS = 300_000
/**
 * On trial, a backend is healthy after this many successes, and is ejected again after this many failures.
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

  noteSuccess(now: number): void {
    // Results of requests that were sent before the ejection are ignored.
    if (this.state(now) === 'ejected') return
    this.#weigh(now)
    this.#results++
    if (!this.#isHealthy && this.#results - this.#failures >= TRIAL_SUCCESSES) {
      this.#isHealthy = true
    }
  }

  /** Returns whether the backend is ejected now. */
  noteFailure(peers: readonly BackendHealth[], now: number): boolean {
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
    const ejected = peers.length - healthy.length
    if (ejected + 1 > EJECTED_SHARE_MAX * (peers.length + 1)) return false
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
    if (now - this.#ejectedUntil > FORGIVEN_MS) this.#ejections = 0
    const ms = Math.min(EJECTED_MS_MAX, EJECTED_MS * 2 ** this.#ejections)
    this.#ejections++
    this.#ejectedUntil = now + ms * (1 + EJECTED_JITTER * Math.random())
    this.#isHealthy = false
    this.#results = 0
    this.#failures = 0
  }

  #weigh(now: number): void {
    const ms = now - this.#weighedAt
    // The results of a trial keep their weight: otherwise one call per minute would never end it.
    if (!this.#isHealthy || ms < WEIGHED_MS) return
    const weight = 0.5 ** (ms / HALF_LIFE_MS)
    this.#results *= weight
    this.#failures *= weight
    this.#weighedAt = now
  }
}
