/**
 * A backend sends random responses, split at random positions. Each call gets its own complete response, or none.
 * `SEED` selects other responses, `PROPERTY_RUNS` the number of runs.
 */
import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { Abort } from '../../gateway/call/abort.ts'
import { watchBackendAddresses } from '../../gateway/upstream/addresses.ts'
import { BackendSet } from '../../gateway/upstream/backend-set.ts'
import { createForwarder } from '../../gateway/upstream/forward.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { createLogger } from '../../shared/process/log.ts'
import { fc } from '../fixtures/properties.ts'
import { GATEWAY_SECRET } from '../fixtures/service/gateway.ts'
import { startRawBackend } from './fixtures/raw-backend.ts'

const numRuns = Number(process.env['PROPERTY_RUNS'] ?? 200)

const backend = await startRawBackend(t)
const log = createLogger('gateway', 'silent')
const addresses = watchBackendAddresses({ urls: [backend.url], log })
const limits = { timeoutMs: 5_000, waitMs: 250, connections: 3, streamsMax: 100 }
const backends = new BackendSet({ addresses, gatewaySecrets: [GATEWAY_SECRET], log, ...limits })
const forwarder = createForwarder({ backends, log, ...limits })
t.teardown(async () => {
  addresses.close()
  backends.close()
})

const INFORMATIONAL_MAX = 8
const randomPlan = fc.record({
  method: fc.constantFrom('GET', 'GET', 'POST', 'HEAD'),
  informational: fc.oneof(
    { arbitrary: fc.constant(0), weight: 8 },
    { arbitrary: fc.nat({ max: INFORMATIONAL_MAX + 1 }), weight: 1 },
  ),
  status: fc.constantFrom(200, 200, 200, 201, 204, 304, 404, 500, 599, 600, 99, 101),
  framing: fc.constantFrom(
    ...(['length', 'length', 'chunked', 'chunked', 'none', 'both', 'two lengths', 'gzip'] as const),
  ),
  bytes: fc.constantFrom(0, 1, 2, 50, 5_000, 262_144, 262_145, 600_000),
  chunk: fc.constantFrom(1, 7, 4_096, 1_000_000),
  /** What the backend does wrong at the end of its response. */
  fault: fc.constantFrom('', '', '', 'bytes after', 'ends early', 'resets early', 'closes after'),
  cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 6 }),
  isByteByByte: fc.boolean(),
})

/** The response that the backend sends to a call. */
type Plan = typeof randomPlan extends fc.Arbitrary<infer A> ? A : never

function bodyOf({ bytes }: Plan, call: number): string {
  return `${call};`.repeat(1 + bytes / 2).slice(0, bytes)
}

function isBodiless({ method, status }: Plan): boolean {
  return method === 'HEAD' || status === 204 || status === 304
}

function headOf(plan: Plan, length: number): string {
  const { status, framing, informational, fault } = plan
  const lines = {
    length: `Content-Length: ${length}\r\n`,
    chunked: 'transfer-encoding:chunked \r\n',
    none: '',
    both: `Content-Length: ${length}\r\nTransfer-Encoding: chunked\r\n`,
    'two lengths': `Content-Length: ${length}\r\nContent-Length: ${length}\r\n`,
    gzip: 'Transfer-Encoding: gzip, chunked\r\n',
  }[framing]
  const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(informational)
  // If the backend did not announce that it closes the connection, the next call might be lost.
  const close = fault === 'closes after' ? 'Connection: X-A, Close\r\n' : ''
  return `${hints}HTTP/1.1 ${String(status).padStart(3, '0')} \r\nX-A: b\r\n${lines}${close}\r\n`
}

function write(plan: Plan, call: number): string {
  const body = bodyOf(plan, call)
  const head = headOf(plan, body.length)
  if (isBodiless(plan)) return head
  if (plan.framing !== 'chunked') return head + body
  let chunks = ''
  const step = Math.max(plan.chunk, Math.ceil(body.length / 2000))
  for (let offset = 0; offset < body.length; offset += step) {
    const part = body.slice(offset, offset + step)
    chunks += `${part.length.toString(16)}\r\n${part}\r\n`
  }
  return `${head}${chunks}0\r\nX-T: 1\r\n\r\n`
}

const plans = new Map<number, Plan>()

backend.setBehavior(async (socket, _, request) => {
  const call = Number(/\?n=(\d+)/.exec(request)?.[1])
  const plan = plans.get(call)
  if (plan !== undefined) await send(socket, plan, write(plan, call))
})

async function send(socket: Socket, plan: Plan, whole: string): Promise<void> {
  const { fault } = plan
  const forged = fault === 'bytes after' ? 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged' : ''
  const isShort = fault === 'ends early' || fault === 'resets early'
  const bytes = isShort ? whole.slice(0, -1) : whole + forged
  // Bytes after a response are sent together with its end. If sent later, they could be the response to another call.
  const end = bytes.length - forged.length - 1
  for (const piece of cut(bytes, end, plan)) {
    if (socket.destroyed) return
    socket.write(piece, 'latin1')
    await turn()
  }
  if (fault === 'ends early' || fault === 'closes after') socket.end()
  if (fault === 'resets early') socket.resetAndDestroy()
}

function cut(bytes: string, end: number, { cuts, isByteByByte }: Plan): string[] {
  const every = isByteByByte && bytes.length < 1_000
  const inside = every
    ? Array.from({ length: Math.max(0, end) }, (_, n) => n)
    : cuts.map((share) => Math.floor(share * end))
  const offsets = [0, ...inside, bytes.length].sort((a, b) => a - b)
  const pieces = offsets.slice(1).map((to, n) => bytes.slice(offsets[n], to))
  return pieces.filter((piece) => piece !== '')
}

/** Returns the expected outcome of a call: the status and body, or `lost`. */
function expected(plan: Plan, call: number): string {
  const { status, framing, fault, informational } = plan
  const isInvalid = status < 200 || status > 599 || informational > INFORMATIONAL_MAX
  if (isInvalid || framing === 'both' || framing === 'two lengths' || framing === 'gzip')
    return 'lost'
  if (isBodiless(plan)) return fault.endsWith('early') ? 'lost' : `${status} `
  if (framing === 'none' || fault.endsWith('early')) return 'lost'
  return `${status} ${bodyOf(plan, call)}`
}

async function forwardOne({ method }: Plan, call: number): Promise<string> {
  const request = {
    accountId: 'acct_00000000000000000000000000',
    method,
    target: `/api/v1/debtors?n=${call}`,
    headers: [],
    body: Buffer.alloc(method === 'POST' ? 20_000 : 0, 'x'),
    idempotent: false,
  }
  try {
    const record = { backend: undefined, upstreamMs: 0 }
    const { status, body } = await forwarder.forward(request, new Abort(), record)
    const parts = Buffer.isBuffer(body) ? [body] : await body.toArray()
    return `${status} ${Buffer.concat(parts).toString('latin1')}`
  } catch (error) {
    // A large response is streamed, so the error may also come from its stream.
    return error instanceof Problem && error.code !== 'bad_gateway' ? error.code : 'lost'
  }
}

let calls = 0

t.test('each call gets its own complete response, or none', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(randomPlan, { minLength: 1, maxLength: 8 }), async (randomPlans) => {
      const requested = randomPlans.map((plan) => ({ plan, call: ++calls }))
      for (const { plan, call } of requested) plans.set(call, plan)
      const seen = await Promise.all(requested.map(({ plan, call }) => forwardOne(plan, call)))
      for (const [n, { plan, call }] of requested.entries()) {
        const wanted = expected(plan, call)
        if (seen[n] === wanted) continue
        throw new Error(`got ${seen[n]?.slice(0, 60)}, expected ${wanted.slice(0, 60)}`)
      }
    }),
    { numRuns, endOnFailure: true },
  )
})
