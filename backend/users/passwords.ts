/**
 * Hashes passwords with argon2id in the PHC string format. Only one hash is computed at a time, and operations that
 * find the queue full are rejected with 503: otherwise, a flood of logins could occupy the threads that payments need.
 */
import { type Argon2Parameters, argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { temporarilyUnavailable } from '../../shared/contract/problem.ts'
import { normalizeText } from '../validation/unicode.ts'

export interface HashCost {
  readonly memoryKib: number
  readonly passes: number
}

/** The minimum that OWASP recommends for argon2id: 19 MiB, two passes, one lane. One hash takes about 80 ms. */
const RECOMMENDED: HashCost = { memoryKib: 19_456, passes: 2 }
const PARALLELISM = 1
const SALT_BYTES = 16
const HASH_BYTES = 32

/** The maximum number of operations that wait. Together they take about two seconds. */
const WAITING_MAX = 20

const PHC = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/

const derive = promisify(argon2)

export interface Passwords {
  /** The number of operations that wait or run. */
  readonly pending: number
  /** The number of operations that were rejected with 503. */
  readonly rejected: number
  /** Throws `Problem` 503 if the queue is full. */
  hash(password: string): Promise<string>
  /**
   * Resolves with false if `stored` is undefined, as for an unknown user. This takes as long as for a known user, so
   * that the time does not reveal whether an address has a login. Throws `Problem` 503 if the queue is full.
   */
  verify(stored: string | undefined, password: string): Promise<boolean>
  /** Whether new hashes have other parameters than `stored`, which should then be replaced at the next login. */
  isOutdated(stored: string): boolean
}

/** Must be called only once in a process, because each call creates its own queue. Only tests pass a cost. */
export function createPasswords({ memoryKib, passes } = RECOMMENDED): Passwords {
  const cost = `m=${memoryKib},t=${passes},p=${PARALLELISM}`
  /** A hash that no password matches. */
  const unknownUserHash = phcOf(cost, Buffer.alloc(SALT_BYTES), Buffer.alloc(HASH_BYTES))
  /** Settles when the last operation in the queue ends. */
  let queueEnd: Promise<unknown> = Promise.resolve()
  let pending = 0
  let rejected = 0

  async function enqueue<T>(work: () => Promise<T>): Promise<T> {
    // `pending` also counts the operation that runs, which does not wait.
    if (pending > WAITING_MAX) {
      rejected += 1
      throw temporarilyUnavailable('Too many logins at the moment. Try again shortly.', {
        seconds: 2,
      })
    }
    pending += 1
    const turn = queueEnd.then(work).finally(() => {
      pending -= 1
    })
    queueEnd = turn.catch(() => {})
    return turn
  }

  async function hash(password: string): Promise<string> {
    const salt = randomBytes(SALT_BYTES)
    const parameters = {
      memory: memoryKib,
      passes,
      parallelism: PARALLELISM,
      nonce: salt,
      tagLength: HASH_BYTES,
    }
    const tag = await enqueue(() => deriveTag(password, parameters))
    return phcOf(cost, salt, tag)
  }

  async function verify(stored: string | undefined, password: string): Promise<boolean> {
    const { parameters, tag } = parsePhc(stored ?? unknownUserHash)
    const derived = await enqueue(() => deriveTag(password, parameters))
    return timingSafeEqual(derived, tag) && stored !== undefined
  }

  function isOutdated(stored: string): boolean {
    const { parameters } = parsePhc(stored)
    return cost !== `m=${parameters.memory},t=${parameters.passes},p=${parameters.parallelism}`
  }

  return {
    get pending() {
      return pending
    },
    get rejected() {
      return rejected
    },
    hash,
    verify,
    isOutdated,
  }
}

/** Node calls the salt `nonce`, and the hash `tag`. */
type Parameters = Omit<Argon2Parameters, 'message'>

function phcOf(cost: string, salt: Buffer, tag: Buffer): string {
  return `$argon2id$v=19$${cost}$${unpadded(salt)}$${unpadded(tag)}`
}

/** Normalizes the password (NFKC), so that a password that is typed on another keyboard is the same password. */
function deriveTag(password: string, parameters: Parameters): Promise<Buffer> {
  return derive('argon2id', { ...parameters, message: normalizeText(password, 'NFKC') })
}

function parsePhc(text: string): { parameters: Parameters; tag: Buffer } {
  const [, memory, passes, parallelism, salt, hash] = PHC.exec(text) ?? []
  if (salt === undefined || hash === undefined)
    throw new Error('A stored password hash is malformed')
  const tag = Buffer.from(hash, 'base64')
  return {
    parameters: {
      memory: Number(memory),
      passes: Number(passes),
      parallelism: Number(parallelism),
      nonce: Buffer.from(salt, 'base64'),
      tagLength: tag.length,
    },
    tag,
  }
}

function unpadded(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '')
}
