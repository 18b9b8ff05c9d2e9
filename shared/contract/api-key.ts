/**
 * The format of an API key, shown here with spaces between its parts:
 *
 *     rcv_ 7Qd4xK2m _ ‹43 base62 characters: 256 random bits› ‹6 base62 characters: CRC-32›
 *     └─ prefix ──┘
 *
 * The checksum covers everything before it. With the checksum, secret scanners recognize keys, and the gateway rejects
 * a mistyped key without a look-up.
 */
import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const PREFIX_LENGTH = 'rcv_'.length + 8
const CHECKSUM_LENGTH = 6
/** The number of characters of every key. */
export const API_KEY_LENGTH = PREFIX_LENGTH + '_'.length + 43 + CHECKSUM_LENGTH
/** The maximum number of keys that a gateway looks up with one request. */
export const LOOK_UPS_PER_REQUEST_MAX = 50
const SHAPE = /^rcv_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}$/
const SHAPE_WITHIN = /rcv_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}/

export interface ApiKey {
  /** The whole key, which is shown once, never stored and never logged. */
  readonly secret: string
  /** The part that may always be shown: `rcv_` and eight characters. */
  readonly prefix: string
}

export function mintApiKey(): ApiKey {
  const body = `rcv_${randomBase62(8)}_${randomBase62(43)}`
  return { secret: body + checksum(body), prefix: body.slice(0, PREFIX_LENGTH) }
}

/** Parses a key. Returns undefined if its format or its checksum is wrong. The text is not trimmed. */
export function parseApiKey(text: string): ApiKey | undefined {
  if (!SHAPE.test(text)) return undefined
  const body = text.slice(0, -CHECKSUM_LENGTH)
  if (checksum(body) !== text.slice(-CHECKSUM_LENGTH)) return undefined
  return { secret: text, prefix: text.slice(0, PREFIX_LENGTH) }
}

/** Whether a part of the text has the format of a key. The checksum is not compared: a mistyped key is a secret too. */
export function containsApiKey(text: string): boolean {
  return SHAPE_WITHIN.test(text)
}

/** Returns the SHA-256 digest of the secret in base64url. */
export function digestApiKey(secret: string): string {
  return hash('sha256', secret, 'base64url')
}

function randomBase62(length: number): string {
  return Array.from({ length }, () => ALPHABET.charAt(randomInt(ALPHABET.length))).join('')
}

function checksum(text: string): string {
  let remaining = crc32(text)
  let digits = ''
  for (let digit = 0; digit < CHECKSUM_LENGTH; digit++) {
    digits = ALPHABET.charAt(remaining % ALPHABET.length) + digits
    remaining = Math.floor(remaining / ALPHABET.length)
  }
  return digits
}
