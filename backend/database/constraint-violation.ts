/**
 * A statement violated a constraint of the schema. Only this statement is undone: the transaction continues if the
 * caller catches the error. If the statement was created by `prepared` (prepared.ts), the violation ends the
 * transaction instead. Domain code converts the violations that it expects, e.g. by a duplicate invoice number, into
 * a `Problem`.
 */
export class ConstraintViolation extends Error {
  readonly kind: 'unique' | 'foreign_key' | 'check'
  /** For `unique`, all columns of the unique key as `table.column`, e.g. `invoices.number`; otherwise empty. */
  readonly columns: readonly string[]

  constructor(kind: ConstraintViolation['kind'], columns: readonly string[], cause: Error) {
    super(cause.message, { cause })
    this.name = 'ConstraintViolation'
    this.kind = kind
    this.columns = columns
  }
}
