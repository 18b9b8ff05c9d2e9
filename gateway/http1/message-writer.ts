/** Renders heads, and writes each message with as few writes as possible. */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'

/** Up to this size of the body, joining it to the head costs less than a separate write. */
const JOINED_BYTES_MAX = 16 * 1024

/** In `fields`, names and values alternate. The result ends with the empty line, and must be written as Latin-1. */
export function renderRequestHead(
  method: string,
  target: string,
  fields: readonly string[],
): string {
  return `${method} ${target} HTTP/1.1\r\n${renderFields(fields)}\r\n`
}

/**
 * Renders the head of a response, which must be written as Latin-1. In each list, names and values alternate. Passing
 * several lists takes less time than joining them.
 */
export function renderResponseHead(
  status: number,
  fieldLists: readonly (readonly string[])[],
): string {
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`
  for (const fields of fieldLists) text += renderFields(fields)
  return `${text}\r\n`
}

export const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'

/** Renders the line before the data of a chunk. The caller writes the line end after the data. */
export function renderChunkSize(bytes: number): string {
  return `${bytes.toString(16)}\r\n`
}

/** Writes a head (or the size of a chunk) as Latin-1, and then the body (or the chunk). */
export function writeMessage(socket: Socket, head: string, body: Buffer): void {
  if (body.length <= JOINED_BYTES_MAX) {
    socket.write(body.length === 0 ? head : head + body.toString('latin1'), 'latin1')
    return
  }
  socket.cork()
  socket.write(head, 'latin1')
  socket.write(body)
  socket.uncork()
}

function renderFields(fields: readonly string[]): string {
  let text = ''
  for (let index = 0; index < fields.length; index += 2)
    text += `${fields[index]}: ${fields[index + 1]}\r\n`
  return text
}
