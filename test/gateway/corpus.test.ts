/**
 * Sends each case of the corpus (`fixtures/corpus/`: valid and malformed HTTP/1.1 requests) to a real gateway, whole
 * and split at awkward positions. Each request gets one final response and causes at most one upstream request, and
 * nothing is parsed after a rejection.
 */
import { connect } from 'node:net'
import t from 'tap'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { CORPUS } from './fixtures/corpus/index.ts'
import {
  createCallCounter,
  SPLITS,
  type Trial,
  tryCase,
  withFollowUp,
} from './fixtures/corpus/trial.ts'

const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url, { LOG_LEVEL: 'error' })
const key = backend.issue(undefined, 1_000_000)

const trial: Trial = {
  backend,
  key,
  connect: (open) => connect({ port: gateway.port, host: '127.0.0.1', noDelay: true }, open),
  countNewCalls: await createCallCounter(async () => {
    const { headers } = await call(`${gateway.url}/api/v1/debtors?probe`, { key })
    return Number(headers['x-ratelimit-remaining'])
  }),
}

t.ok(Object.values(CORPUS).flat().length >= 500)

for (const [how, split] of Object.entries(SPLITS)) {
  for (const [subject, cases] of Object.entries(CORPUS)) {
    t.test(`${subject}: each case that is sent ${how} has the expected outcome`, async (t) => {
      for (const testCase of cases) {
        const [name, clause, , outcome] = testCase
        const seen = await tryCase(testCase, split, trial).catch(String)
        t.strictSame(seen, withFollowUp(outcome), `${name} (RFC ${clause})`)
      }
    })
  }
}

t.test('no case makes the gateway fail', async (t) => {
  t.notMatch(gateway.log(), /"level":"(?:error|fatal)"|uncaught/)
})
