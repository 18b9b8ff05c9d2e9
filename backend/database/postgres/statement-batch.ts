/**
 * Statements that are sent together: in one write to the socket, and with one Sync of the protocol at the end. The
 * server runs them in order. If a statement fails, the server skips the statements after it.
 *
 * A statement that is sent alone costs the driver and the server a system call, and the driver a timer and some
 * promises. This takes longer than most of our statements themselves.
 */
import assert from 'node:assert'
import pg from 'pg'
import { TYPES } from './types.ts'

type EncodedValue = string | Buffer | null

export interface Statement {
  readonly text: string
  readonly values: readonly EncodedValue[]
  /** The name under which the server keeps the statement prepared; undefined if the server must not keep it. */
  readonly name: string | undefined
  readonly returnsRows: boolean
}

export interface StatementResult {
  readonly command: string
  readonly rowCount: number
  readonly rows: readonly Row[]
  /**
   * If a returned value could not be converted to a JavaScript value, the error; otherwise undefined. The server has
   * run the statement successfully in both cases.
   */
  readonly conversionError: unknown
}

export interface BatchOutcome {
  /** The results of the statements that succeeded: all statements before the first one that failed. */
  readonly results: readonly StatementResult[]
  /** The error of the first statement that failed, or of the connection; undefined if all statements succeeded. */
  readonly error: unknown
}

type Row = Record<string, unknown>

interface Column {
  readonly name: string
  readonly parse: (text: string) => unknown
}

/**
 * Converts a value to the form that the protocol sends. Called before the batch is sent, so that nothing is sent if a
 * value cannot be converted.
 */
export function encodeValue(value: unknown): EncodedValue {
  if (typeof value === 'string' || value === null || Buffer.isBuffer(value)) return value
  if (value instanceof Uint8Array) return Buffer.from(value)
  assert(
    typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint',
    'A parameter must be a string, number, bigint, boolean, bytes or null',
  )
  return String(value)
}

/** The statements that a connection has prepared, by text, with their names and the columns of their rows. */
type Prepared = Map<string, { readonly name: string; readonly columns: readonly Column[] }>

const PREPARED = new WeakMap<pg.ClientBase, Prepared>()

/** Resolves even if a statement or the connection fails: the error is part of the outcome. */
export function sendTogether(
  client: pg.ClientBase,
  statements: readonly Statement[],
): Promise<BatchOutcome> {
  const prepared: Prepared = PREPARED.get(client) ?? new Map()
  PREPARED.set(client, prepared)
  return new Promise((resolve) => {
    const batch = new Batch(statements, prepared, resolve)
    client.query(batch)
  })
}

/** The connection that the driver passes to `submit`, with methods that the driver's types omit. */
interface Connection {
  readonly stream: { cork(): void; uncork(): void }
  close(statement: { type: 'S'; name: string }): void
  parse(statement: { name: string; text: string }): void
  bind(statement: { statement: string; values: readonly EncodedValue[] }): void
  describe(portal: { type: 'P'; name: string }): void
  execute(): void
  sync(): void
}

/** In pipeline mode, the driver accepts only instances of its class `Query`, whose methods the driver's types omit. */
const DriverQuery = pg.Query as unknown as new (config: {
  text: string
}) => {
  submit(connection: pg.Connection): void
}

class Batch extends DriverQuery {
  readonly #statements: readonly Statement[]
  readonly #prepared: Prepared
  readonly #results: StatementResult[] = []
  #columns: readonly Column[] | undefined
  #rows: Row[] = []
  #conversionError: unknown
  /** The driver replaces this function with one that also stops the driver's timer. */
  callback: (error: unknown) => void

  constructor(
    statements: readonly Statement[],
    prepared: Prepared,
    resolve: (outcome: BatchOutcome) => void,
  ) {
    super({ text: '' })
    this.#statements = statements
    this.#prepared = prepared
    this.callback = (error) => resolve({ results: this.#results, error })
  }

  override submit(given: pg.Connection): void {
    const connection = given as unknown as Connection
    connection.stream.cork()
    for (const statement of this.#statements) this.#submitOne(connection, statement)
    connection.sync()
    connection.stream.uncork()
  }

  #submitOne(connection: Connection, { text, values, name = '', returnsRows }: Statement): void {
    const prepared = name === '' ? undefined : this.#prepared.get(text)
    const isPrepared = prepared?.name === name
    if (!isPrepared) {
      // Without this, the server would keep the statement under its former name too, until the connection is closed.
      if (prepared !== undefined) connection.close({ type: 'S', name: prepared.name })
      // The server may know the name already, if an earlier batch prepared the statement and then failed. To close an
      // unknown name is not an error.
      if (name !== '') connection.close({ type: 'S', name })
      connection.parse({ name, text })
    }
    connection.bind({ statement: name, values })
    if (returnsRows && !isPrepared) connection.describe({ type: 'P', name: '' })
    connection.execute()
  }

  handleRowDescription({ fields }: { readonly fields: readonly pg.FieldDef[] }): void {
    this.#columns = fields.map(({ name, dataTypeID }) => ({
      name,
      parse: TYPES.getTypeParser(dataTypeID, 'text'),
    }))
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const { text: sql = '' } = this.#statements[this.#results.length] ?? {}
    this.#columns ??= this.#prepared.get(sql)?.columns
    const row: Row = {}
    try {
      for (const [at, { name: column, parse }] of (this.#columns ?? []).entries()) {
        const text = fields[at] ?? null
        row[column] = text === null ? null : parse(text)
      }
      this.#rows.push(row)
    } catch (error) {
      this.#conversionError ??= error
    }
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    const { name, text: sql = '' } = this.#statements[this.#results.length] ?? {}
    if (name !== undefined && this.#prepared.get(sql)?.name !== name)
      this.#prepared.set(sql, { name, columns: this.#columns ?? [] })
    const words = text.split(' ')
    this.#results.push({
      command: words[0] ?? '',
      rowCount: words.length > 1 ? Number(words.at(-1)) : 0,
      rows: this.#rows,
      conversionError: this.#conversionError,
    })
    this.#columns = undefined
    this.#rows = []
    this.#conversionError = undefined
  }

  handleError(error: unknown): void {
    this.callback(error)
  }

  handleReadyForQuery(): void {
    this.callback(undefined)
  }
}
