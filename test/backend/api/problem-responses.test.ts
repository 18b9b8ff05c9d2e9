import { server as createHapi } from '@hapi/hapi'
import t from 'tap'
import { respondWithProblems } from '../../../backend/http/problem-responses.ts'
import { matches } from '../../fixtures/matches.ts'
import { recordLog } from '../../fixtures/recorded-log.ts'
import { BASE_URL } from '../../fixtures/service/backend.ts'

t.test('a response that cannot be sent is logged and counted', async (t) => {
  // Regression: hapi responded with 500, but the reason was neither logged nor counted.
  const { log, lines } = recordLog<object>()
  const codes: string[] = []
  const server = createHapi({ debug: false })
  respondWithProblems(server, {
    ...{ log, baseUrl: BASE_URL, renderPage: () => undefined },
    countProblem: ({ code }) => codes.push(code),
  })
  server.route({
    method: 'GET',
    path: '/{id}',
    handler: (_, h) => h.response().header('location', '😀'),
  })
  t.equal((await server.inject('/a')).statusCode, 500)
  matches(t, lines, [{ level: 50, msg: 'internal_error', route: '/{id}', err: { stack: String } }])
  t.strictSame(codes, ['internal_error'])
})
