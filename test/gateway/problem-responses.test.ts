/** Each rendered problem has its own document, and the request id of its own call. */
import t from 'tap'
import { createProblemRenderer } from '../../gateway/downstream/response.ts'
import { Problem, renderProblem, temporarilyUnavailable } from '../../shared/contract/problem.ts'

const BASE_URL = 'https://api.test'

t.test('successive responses have the right problem and request id', async (t) => {
  const render = createProblemRenderer(BASE_URL)
  const overload = temporarilyUnavailable('Too many requests at once.')
  const tooLarge = new Problem('payload_too_large', 'The body is over 5 bytes.', {
    members: { max_bytes: 5 },
  })
  const problems = [overload, overload, tooLarge, overload, tooLarge, tooLarge]
  for (const [index, problem] of problems.entries()) {
    const requestId = `req_${index}`
    const { status, body } = render(problem, requestId)
    t.equal(status, problem.status)
    t.equal(String(body), renderProblem(problem, BASE_URL, requestId))
  }
})

t.test('a text that looks like a request id stays as it is', async (t) => {
  const render = createProblemRenderer(BASE_URL)
  const detail = 'There is nothing at "request_id":"".'
  const problem = new Problem('route_not_found', detail, { members: { path: '"request_id":""' } })
  t.equal(String(render(problem, 'req_1').body), renderProblem(problem, BASE_URL, 'req_1'))
})
