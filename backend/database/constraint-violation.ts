/**
 * A statement that the schema refused. It undid itself alone: the transaction goes on if the caller
 * catches this. Domain code translates what it expects, e.g. a taken invoice number.
 */
export class ConstraintViolation extends Error {
  readonly kind: 'unique' | 'foreign_key' | 'check'
  /** For `unique`, all columns of the key as `table.column`, e.g. `invoices.number`. Else empty. */
  readonly columns: readonly string[]

  constructor(kind: ConstraintViolation['kind'], columns: readonly string[], cause: Error) {
    super(cause.message, { cause })
    this.name = 'ConstraintViolation'
    this.kind = kind
    this.columns = columns
  }
}
