/**
 * A statement violated a constraint of the schema. Only this statement is undone: the transaction continues
 * if the caller catches the error. A prepared write is an exception: its violation ends the transaction (prepared.ts).
 * Domain code translates expected violations, e.g. a duplicate invoice number.
 */
export class ConstraintViolation extends Error {
  readonly kind: 'unique' | 'foreign_key' | 'check'
  /** For `unique`, all columns of the key as `table.column`, e.g. `invoices.number`; otherwise empty. */
  readonly columns: readonly string[]

  constructor(kind: ConstraintViolation['kind'], columns: readonly string[], cause: Error) {
    super(cause.message, { cause })
    this.name = 'ConstraintViolation'
    this.kind = kind
    this.columns = columns
  }
}
