import t from 'tap'
import {
  beginTrace,
  continueTrace,
  createSpanId,
  isSampled,
  type Trace,
  traceHeaders,
} from '../../shared/process/trace.ts'
import { matches } from '../fixtures/matches.ts'

const ID = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'

t.test("a caller's trace is continued, with a span of our own", async (t) => {
  const trace = read(`00-${ID}-${SPAN}-01`, 'vendor=a:1,other@x=b')
  matches(t, trace, { id: ID, parentSpanId: SPAN })
  t.ok(isSampled(trace))
  const spanId = createSpanId()
  matches(t, spanId, /^[0-9a-f]{16}$/)
  t.strictSame(traceHeaders(trace, spanId), {
    traceparent: `00-${ID}-${spanId}-01`,
    tracestate: 'vendor=a:1,other@x=b',
  })
})

t.test('unknown flags are not forwarded', async (t) => {
  const headers = traceHeaders(read(`00-${ID}-${SPAN}-ff`), SPAN)
  t.strictSame(headers, { traceparent: `00-${ID}-${SPAN}-03` })
  t.notOk(isSampled(read(`00-${ID}-${SPAN}-02`)))
})

t.test('the known fields of a future version are read', async (t) => {
  t.equal(read(`cc-${ID}-${SPAN}-01-more`).id, ID)
  t.equal(read(`cc-${ID}-${SPAN}-01`).id, ID)
})

t.test('a malformed trace is not continued', async (t) => {
  const zero = (digits: number) => '0'.repeat(digits)
  for (const traceparent of [
    undefined,
    '',
    `00-${ID}-${SPAN}`,
    `00-${ID}-${SPAN}-01-more`,
    `ff-${ID}-${SPAN}-01`,
    `00-${ID.toUpperCase()}-${SPAN}-01`,
    `00-${zero(32)}-${SPAN}-01`,
    `00-${ID}-${zero(16)}-01`,
    `00-${ID}-${SPAN}-01, 00-${ID}-${SPAN}-01`,
    ` 00-${ID}-${SPAN}-01`,
  ]) {
    t.equal(continueTrace(traceparent, 'vendor=1'), undefined, String(traceparent))
  }
})

t.test('a new trace is sampled as configured', async (t) => {
  const trace = beginTrace(true)
  matches(t, trace, { id: /^[0-9a-f]{32}$/, parentSpanId: undefined, state: '' })
  t.ok(isSampled(trace))
  t.notOk(isSampled(beginTrace(false)))
  t.not(trace.id, beginTrace(true).id)
  matches(t, traceHeaders(beginTrace(false), SPAN), { traceparent: /^00-[0-9a-f]{32}-\w{16}-02$/ })
})

t.test('a malformed tracestate is dropped as a whole', async (t) => {
  const state = (tracestate: string) => read(`00-${ID}-${SPAN}-01`, tracestate).state
  t.equal(state('a=1 , b=2,,'), 'a=1,b=2')
  t.equal(state(`a=${'x'.repeat(256)}`), `a=${'x'.repeat(256)}`)
  for (const bad of [
    'A=1',
    'a',
    'a=',
    'a=1,a=2',
    'a=1=2',
    `a=${'x'.repeat(257)}`,
    'é=1',
    Array.from({ length: 33 }, (_, index) => `k${index}=1`).join(','),
    `a=${'x'.repeat(200)},b=${'x'.repeat(200)},c=${'x'.repeat(200)}`,
  ]) {
    t.equal(state(bad), '', bad)
  }
})

function read(traceparent: string, tracestate?: string): Trace {
  const trace = continueTrace(traceparent, tracestate)
  if (trace === undefined) throw new Error(`not continued: ${traceparent}`)
  return trace
}
