/** What went wrong, for people, where no form can say it. */
import type { Request } from '@hapi/hapi'
import { type Problem, problemType } from '../../../shared/contract/problem.ts'
import { html } from '../../html/html.ts'
import { renderPage } from './layout.ts'
import { wantsJson } from './page-request.ts'
import type { Frame } from './response.ts'

const NOBODY: Frame = { session: undefined, csrfToken: '', flash: null, halt: undefined }

/** Undefined where the problem document itself is the answer. */
export function renderProblemPage(
  request: Pick<Request, 'path' | 'headers'>,
  problem: Problem,
  requestId: string,
): string | undefined {
  const isSettings = request.path === '/settings' || request.path.startsWith('/settings/')
  if (!isSettings || wantsJson(request)) return undefined
  const title =
    problem.code === 'route_not_found' ? 'Page not found' : problemType(problem.code).title
  const [target, name] =
    problem.code === 'not_logged_in' ? ['/settings/login', 'Log in'] : ['/settings', 'To Settings']
  const main = html`<div class="narrow card">
<h1>${title}</h1>
<p>${problem.message}</p>
<p><a class="button" href="${target}">${name}</a></p>
<p class="hint">Request <code translate="no">${requestId}</code></p>
</div>`
  return renderPage(NOBODY, { title, main }).text
}
