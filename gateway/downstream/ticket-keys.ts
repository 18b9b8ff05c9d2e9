/**
 * The keys with which TLS session tickets are encrypted. Workers share them, so that each can resume the sessions of
 * the others: resuming a session takes about half the CPU time of a full handshake.
 */
import cluster, { type Worker } from 'node:cluster'
import { randomBytes } from 'node:crypto'

/**
 * How long the keys are used. An attacker who obtains the keys can decrypt recorded TLS 1.2 sessions in which a ticket
 * was issued or used. A client whose ticket was encrypted with former keys makes a full handshake.
 */
const LIFETIME_MS = 3_600_000
/** The total length that Node requires of the keys. */
const KEYS_BYTES = 48

interface Message {
  readonly ticketKeys: string
}

/** Runs in the supervisor. */
export class SharedTicketKeys {
  readonly #workers = new Set<Worker>()
  readonly #timer: NodeJS.Timeout
  #message = messageWithNewKeys()

  constructor() {
    this.#timer = setInterval(() => {
      this.#message = messageWithNewKeys()
      for (const worker of this.#workers) this.#sendTo(worker)
    }, LIFETIME_MS)
  }

  /** Sends the current keys to the worker, and new keys whenever they are replaced. */
  share(worker: Worker): void {
    this.#workers.add(worker)
    worker.once('exit', () => this.#workers.delete(worker))
    this.#sendTo(worker)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #sendTo(worker: Worker): void {
    // An error means that the worker has ended.
    worker.send(this.#message, () => {})
  }
}

function messageWithNewKeys(): Message {
  return { ticketKeys: randomBytes(KEYS_BYTES).toString('base64') }
}

/** In a worker, calls `listener` whenever the supervisor sends keys. */
export function onTicketKeys(listener: (keys: Buffer) => void): void {
  if (!cluster.isWorker) return
  // The supervisor sends no other messages.
  process.on('message', ({ ticketKeys }: Message) => listener(Buffer.from(ticketKeys, 'base64')))
}
