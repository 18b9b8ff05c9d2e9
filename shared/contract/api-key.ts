/**
 * The format of an API key (contract 1.12):
 *
 *     rcv_ 7Qd4xK2m _ ‹43 base62 characters: 256 random bits› ‹6 base62 characters: CRC-32›
 *     └─ prefix ──┘
 *
 * The checksum covers all that precedes it, so that secret scanners know a key when they see one
 * and a mistyped one is rejected without a look-up. It proves nothing: only the digest does.
 */
import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const PREFIX_LENGTH = 'rcv_'.length + 8
const CHECKSUM_LENGTH = 6
/** Characters of every key. */
export const API_KEY_LENGTH = PREFIX_LENGTH + '_'.length + 43 + CHECKSUM_LENGTH
/** Keys that a gateway may look up at a backend with one request. */
export const LOOK_UPS_MAX = 50
const SHAPE = /^rcv_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}$/

export interface ApiKey {
  /** The whole key. Shown once, never stored, never logged. */
  readonly secret: string
  /** What may be shown for ever: `rcv_` and eight characters. */
  readonly prefix: string
}

/** A new key from the system's random source. */
export function mintApiKey(): ApiKey {
  const body = `rcv_${randomBase62(8)}_${randomBase62(43)}`
  return { secret: body + checksum(body), prefix: body.slice(0, PREFIX_LENGTH) }
}

/** The key in `text`, or undefined where shape or checksum is wrong. Nothing is trimmed. */
export function parseApiKey(text: string): ApiKey | undefined {
  if (!SHAPE.test(text)) return undefined
  const body = text.slice(0, -CHECKSUM_LENGTH)
  if (checksum(body) !== text.slice(-CHECKSUM_LENGTH)) return undefined
  return { secret: text, prefix: text.slice(0, PREFIX_LENGTH) }
}

/** SHA-256 of the secret, base64url: what the gateway caches and sends to the look-up. */
export function digestApiKey(secret: string): string {
  return hash('sha256', secret, 'base64url')
}

function randomBase62(length: number): string {
  return Array.from({ length }, () => ALPHABET.charAt(randomInt(ALPHABET.length))).join('')
}

function checksum(text: string): string {
  let rest = crc32(text)
  let digits = ''
  for (let place = 0; place < CHECKSUM_LENGTH; place++) {
    digits = ALPHABET.charAt(rest % ALPHABET.length) + digits
    rest = Math.floor(rest / ALPHABET.length)
  }
  return digits
}
