import { FIELD_NAMES, type FieldName, isFieldName } from '../../import/columns.ts'
import { splitList, UsageError } from '../command.ts'

export const COLUMNS_EXAMPLE = 'number=invoiceNumber,customer=customerID'

/** Parses `--columns`, a list of `field=header` pairs. A field with an empty header is not imported. */
export function parseColumns(text: string): ReadonlyMap<FieldName, string> {
  return new Map(
    splitList(text).map((pair) => {
      const at = pair.indexOf('=')
      const field = pair.slice(0, Math.max(at, 0)).trim()
      if (!isFieldName(field)) {
        throw new UsageError(
          `--columns must be a list of field=header pairs, e.g. ${COLUMNS_EXAMPLE}, not ${pair}. The fields are ${FIELD_NAMES.join(', ')}`,
        )
      }
      return [field, pair.slice(at + 1).trim()] as const
    }),
  )
}
