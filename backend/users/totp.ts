/**
 * Computes one-time passwords of authenticator apps (RFC 6238: SHA-1, 6 digits, steps of 30 seconds, which every app
 * supports).
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { normalizeText } from '../validation/unicode.ts'

const STEP_MS = 30_000
const DIGITS = 6
/** 160 bits, as RFC 4226, section 4, recommends. */
const SECRET_BYTES = 20
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** Returns a secret in base32, the format that apps accept. */
export function createTotpSecret(): string {
  let bits = ''
  for (const byte of randomBytes(SECRET_BYTES)) bits += byte.toString(2).padStart(8, '0')
  return (bits.match(/.{5}/g) ?? []).map((group) => BASE32[Number.parseInt(group, 2)]).join('')
}

export function totpUri(secret: string, email: string): string {
  const label = `Receivables:${encodeURIComponent(email)}`
  return `otpauth://totp/${label}?secret=${secret}&issuer=Receivables`
}

/** Exported for tests. `step` is the number of steps of 30 seconds since the epoch. */
export function totpCode(secret: string, step: number): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const mac = createHmac('sha1', decodeBase32(secret)).update(counter).digest()
  const offset = (mac.at(-1) ?? 0) & 0xf
  const number = mac.readUInt32BE(offset) & 0x7fffffff
  return String(number % 10 ** DIGITS).padStart(DIGITS, '0')
}

export function totpStep(now: Date): number {
  return Math.floor(now.getTime() / STEP_MS)
}

/**
 * Returns the step of the code; undefined if the code is wrong or was used before. The clock of a phone may be one step
 * off. `lastStep` is the step of the last code that was used: codes of this step and of earlier ones are rejected.
 */
export function matchTotp(
  secret: string,
  code: string,
  { now, lastStep }: { readonly now: Date; readonly lastStep: number | null },
): number | undefined {
  const entered = Buffer.from(plainCode(code))
  const current = totpStep(now)
  return [current - 1, current, current + 1].find((step) => {
    const expected = Buffer.from(totpCode(secret, step))
    const isRight = entered.length === expected.length && timingSafeEqual(entered, expected)
    return isRight && (lastStep === null || step > lastStep)
  })
}

/**
 * Returns the code in ASCII digits. People also type it with a space or a hyphen, or with the digits of their script.
 * If the number of letters and digits is not six, returns an empty text, which matches no code.
 */
function plainCode(entered: string): string {
  const characters = [...normalizeText(entered, 'NFKC').replace(/[^\p{L}\p{N}]/gu, '')]
  return characters.length === DIGITS ? characters.map(asciiDigit).join('') : ''
}

/**
 * In Unicode, the ten digits of each script are consecutive and begin with the zero. Several scripts can follow each
 * other directly, so the value of a digit is its distance from the start of the whole run, modulo ten.
 */
function asciiDigit(character: string): string {
  const isDigit = (candidate: number) => /\p{Nd}/u.test(String.fromCodePoint(candidate))
  const codePoint = character.codePointAt(0) ?? 0
  if (!isDigit(codePoint)) return character
  let first = codePoint
  while (isDigit(first - 1)) first--
  return String((codePoint - first) % 10)
}

function decodeBase32(text: string): Buffer {
  let bits = ''
  for (const character of text) bits += BASE32.indexOf(character).toString(2).padStart(5, '0')
  const bytes = bits.match(/.{8}/g) ?? []
  return Buffer.from(bytes.map((byte) => Number.parseInt(byte, 2)))
}
