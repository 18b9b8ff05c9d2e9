import pg from 'pg'
import { BadValue } from './errors.ts'

export const INT8 = 20
const NUMERIC = 1700

/** Parses int8 and numeric (the type of a sum of int8) as numbers. By default, `pg` returns both as text. */
export const TYPES = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    return oid === INT8 || oid === NUMERIC ? parseWhole : pg.types.getTypeParser(oid, format)
  },
} as pg.CustomTypesConfig

/** Throws `BadValue` for a fraction, and for a whole number that is too large to be represented exactly. */
export function parseWhole(text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value)) return value
  throw new BadValue(`${text} is not a whole number that can be represented exactly`)
}
