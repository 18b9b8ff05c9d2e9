/** Reads a password without showing it on the terminal, in the list of processes or in the shell's history. */
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { type Context, UsageError } from '../command.ts'

/** Requests the password twice on a terminal. Otherwise reads standard input, which must be one line. */
export async function readPassword({ stdin, stderr }: Context): Promise<string> {
  const input = stdin()
  if (input.isTTY) return promptForPassword(input, stderr)
  const password = (await text(input)).replace(/\r?\n$/, '')
  if (!password.includes('\n')) return password
  throw new UsageError('Standard input must contain one line, the password')
}

async function promptForPassword(input: NodeJS.ReadableStream, stderr: Writable): Promise<string> {
  // With `terminal: true`, the terminal itself does not show what is typed. readline writes the typed text to
  // `output` instead, which discards it.
  const output = new Writable({ write: (_chunk, _encoding, done) => done() })
  const terminal = createInterface({ input, output, terminal: true, historySize: 0 })
  const lines = terminal[Symbol.asyncIterator]()
  const readLine = async (prompt: string): Promise<string> => {
    stderr.write(prompt)
    const { value, done } = await lines.next()
    stderr.write('\n')
    // `done` is true after Ctrl-C or Ctrl-D.
    if (done) throw new UsageError('No password was entered')
    return value
  }
  try {
    const password = await readLine('Password: ')
    if ((await readLine('Password, again: ')) === password) return password
    throw new UsageError('The two passwords differ')
  } finally {
    terminal.close()
  }
}
