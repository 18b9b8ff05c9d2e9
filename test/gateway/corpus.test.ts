/**
 * Each case of the corpus in front of a real gateway, sent whole and split at awkward places: one
 * answer a request, at most one approved upstream request each, nothing parsed behind a refusal.
 */
import { connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { call } from '../fixtures/call.ts'
import { startCapturingBackend } from '../fixtures/capturing-backend.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { parseAnswers } from './fixtures/answers.ts'
import { BEHIND, BEHIND_UPSTREAM, type Case, type Outcome } from './fixtures/corpus/case.ts'
import { CORPUS } from './fixtures/corpus/index.ts'

/** Beyond this many, bytes are no longer sent one by one. */
const SINGLE_BYTES_MAX = 600
const HALF_CLOSE = ''

const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url, { LOG_LEVEL: 'error' })
const key = backend.issue(undefined, 1_000_000)

const SPLITS: Record<string, (bytes: string) => string[]> = {
  whole: (bytes) => [bytes],
  'whole, then half closed': (bytes) => [bytes, HALF_CLOSE],
  'between CR and LF': (bytes) => bytes.split(/(?<=[\r\n])/),
  'byte by byte': (bytes) => [
    ...bytes.slice(0, SINGLE_BYTES_MAX),
    ...(bytes.slice(SINGLE_BYTES_MAX).match(/[\s\S]{1,997}/g) ?? []),
  ],
}

t.ok(Object.values(CORPUS).flat().length >= 500)

for (const [split, pieces] of Object.entries(SPLITS)) {
  for (const [subject, cases] of Object.entries(CORPUS)) {
    t.test(`${subject}, sent ${split}`, async (t) => {
      for (const one of cases) {
        const [name, clause, , outcome] = one
        const required = withBehind(outcome)
        const seen = await tryCase(one, pieces).catch(String)
        t.same(seen, required, `${name} (RFC ${clause})`)
      }
    })
  }
}

t.test('the gateway says nothing of it all but to its log', async (t) => {
  t.notMatch(gateway.log(), /"level":(?:50|60)|uncaught/)
})

/** The request behind is answered too, unless the connection ended before it. */
function withBehind({ answers, upstream, closes, counted = upstream.length }: Outcome) {
  if (closes) return { answers, upstream, counted }
  return {
    answers: [...answers, 200],
    upstream: [...upstream, BEHIND_UPSTREAM],
    counted: counted + 1,
  }
}

async function tryCase([, , bytes, { inPieces }]: Case, pieces: (bytes: string) => string[]) {
  const before = await remaining()
  const from = backend.requests.length
  const all = (bytes + BEHIND).replaceAll('{KEY}', key)
  const answers = parseAnswers(await exchange(pieces(all)), bytes.startsWith('HEAD'))
  const upstream = backend.requests.slice(from)
  return {
    answers: answers.map(({ status }) => (status === inPieces?.status ? inPieces.means : status)),
    upstream: upstream.map(({ method, url, body }) => `${method} ${url} ${body}`),
    counted: before - (await remaining()) - 1,
  }
}

async function remaining(): Promise<number> {
  const { headers } = await call(`${gateway.url}/api/v1/debtors?probe`, { key })
  return Number(headers['x-ratelimit-remaining'])
}

/** Resolves with all that came until the gateway closed; rejects where it does not. */
function exchange(pieces: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const socket = connect({ port: gateway.port, host: '127.0.0.1', noDelay: true })
    const settle = () => {
      resolve(Buffer.concat(chunks).toString('latin1'))
      socket.destroy()
    }
    socket.setTimeout(5_000, () => {
      reject(new Error(`not closed after ${Buffer.concat(chunks).toString('latin1')}`))
      socket.destroy()
    })
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    socket.on('end', settle)
    socket.on('error', settle)
    socket.on('connect', async () => {
      for (const piece of pieces) {
        if (socket.destroyed) return
        if (piece === HALF_CLOSE) socket.end()
        else socket.write(piece, 'latin1')
        await turn()
      }
    })
  })
}
