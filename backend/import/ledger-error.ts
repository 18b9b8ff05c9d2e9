/** The file cannot be imported as it is. Nothing was recorded. */
export class LedgerError extends Error {
  override readonly name = 'LedgerError'
  /** The option that is missing or wrong, or the part of the file that must be corrected. */
  readonly about: 'columns' | 'currency' | 'date_format' | 'file' | 'rows'
  /** The faults of rows, each beginning with its line. */
  readonly faults: readonly string[]

  constructor(
    message: string,
    {
      about,
      faults = [],
      cause,
    }: {
      readonly about: LedgerError['about']
      readonly faults?: readonly string[]
      readonly cause?: unknown
    },
  ) {
    super(message, cause === undefined ? {} : { cause })
    this.about = about
    this.faults = faults
  }
}
