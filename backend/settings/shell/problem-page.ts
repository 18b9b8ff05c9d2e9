/** Renders the error pages of Settings, for problems that are not shown in the form that was sent. */
import type { Request, ResponseToolkit } from '@hapi/hapi'
import { type Problem, problemType } from '../../../shared/contract/problem.ts'
import { html } from '../../html/html.ts'
import { csrfTokenOf } from '../../sessions/csrf-token.ts'
import type { Session } from '../../sessions/sessions.ts'
import { renderPage } from './layout.ts'
import { type Frame, wantsJson } from './response.ts'

function nextStep({ code }: Problem): [target: string, name: string] {
  if (code === 'not_logged_in') return ['/settings/login', 'Log in']
  if (code === 'second_factor_required') return ['/settings/two-factor', 'Set it up']
  return ['/settings', 'Go to Home']
}

/** The words of problems whose own words are for programs: clients of the API, and scripts that use Settings. */
const PAGE_WORDS: Readonly<Record<string, { readonly title: string; readonly text?: string }>> = {
  route_not_found: { title: 'Page not found' },
  not_logged_in: {
    title: 'Your session has ended',
    text: 'Nothing was changed. Log in, and then repeat what you did.',
  },
  second_factor_required: {
    title: 'Set up two-factor authentication',
    text: 'Nothing was changed. Your account now requires two-factor authentication of its Admins. Set it up, and then repeat what you did.',
  },
  idempotency_key_reused: {
    title: 'Already recorded',
    text: 'This form has already been sent with other values, and these were recorded. To record anything else, open the form again.',
  },
  idempotency_in_progress: {
    title: 'Still being recorded',
    text: 'This form has been sent twice, and the first request is still running. Nothing is recorded twice.',
  },
}

/** Returns undefined if the client receives the problem document instead. */
export function renderProblemPage(
  request: Request,
  problem: Problem,
  requestId: string,
): string | undefined {
  const isSettings = request.path === '/settings' || request.path.startsWith('/settings/')
  if (!isSettings || wantsJson(request)) return undefined
  const { title = problemType(problem.code).title, text = problem.message } =
    PAGE_WORDS[problem.code] ?? {}
  const [target, name] = nextStep(problem)
  const main = html`<div class="narrow card" data-dialog-content>
<h1 tabindex="-1">${title}</h1>
<p>${text}</p>
<p><a class="button" href="${target}">${name}</a></p>
<p class="hint">Request <code translate="no">${requestId}</code></p>
</div>`
  return renderPage(FRAMES.get(request) ?? FRAME_WITHOUT_SESSION, { title, main }).text
}

/** What surrounds the content of an error page, such as the navigation, for requests with a session. */
const FRAMES = new WeakMap<Request, Frame>()

const FRAME_WITHOUT_SESSION: Frame = {
  session: undefined,
  csrfToken: '',
  flash: null,
  killSwitch: undefined,
}

/** If the request fails, its error page has the navigation of the session. */
export function storeErrorFrame(request: Request, session: Session): void {
  const csrfToken = csrfTokenOf(session.token)
  FRAMES.set(request, { session, csrfToken, flash: null, killSwitch: undefined })
}

/** The cookies of error responses, for requests that have replaced the session's token. */
const COOKIES = new WeakMap<Request, string>()

/**
 * If the request fails, its error response sets `cookie`, which contains the session's new token. Without this cookie,
 * the browser would be logged out.
 */
export function storeErrorCookie(request: Request, cookie: string): void {
  COOKIES.set(request, cookie)
}

/**
 * Sets the cookie of `storeErrorCookie`. This is the `onPreResponse` extension of routes. The server's extension runs
 * first, and converts errors into responses.
 */
export function setErrorCookie(request: Request, h: ResponseToolkit) {
  const { response } = request
  const cookie = COOKIES.get(request)
  if (cookie !== undefined && !(response instanceof Error)) {
    response.header('set-cookie', cookie, { append: true })
  }
  return h.continue
}
