/**
 * A statement violated a constraint of the schema. If the caller catches the error, the transaction continues as if the
 * statement had not run. This does not apply to prepared writes (prepared.ts): a violation by one of them makes the
 * whole transaction fail. Domain code converts the violations that it expects into a `Problem`.
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
