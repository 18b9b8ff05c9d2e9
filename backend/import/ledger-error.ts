/** Thrown if the file is wrong, or an option of the import is wrong or missing. Nothing was recorded. */
export class LedgerError extends Error {
  override readonly name = 'LedgerError'
  /** The option that is missing or wrong, or the part of the file that is wrong. */
  readonly about: 'columns' | 'currency' | 'date_format' | 'file' | 'rows'
  /** The first errors of rows. Each begins with its line, e.g. `line 3: `. */
  readonly rowErrors: readonly string[]
  /** The number of all errors of rows. */
  readonly rowErrorCount: number

  constructor(
    message: string,
    {
      about,
      rowErrors = [],
      rowErrorCount = 0,
      cause,
    }: {
      readonly about: LedgerError['about']
      readonly rowErrors?: readonly string[]
      readonly rowErrorCount?: number
      readonly cause?: unknown
    },
  ) {
    super(message, cause === undefined ? {} : { cause })
    this.about = about
    this.rowErrors = rowErrors
    this.rowErrorCount = rowErrorCount
  }
}
