/** Error pages for people. The gateway renders them itself, because the backend may be unavailable. */
import { createHash } from 'node:crypto'
import { readAccept } from '../../shared/contract/accept.ts'
import { Problem, problemType } from '../../shared/contract/problem.ts'
import type { BodyLimits } from '../call/call.ts'
import { problemHeaders, type WholeResponse } from '../downstream/response.ts'
import type { RequestHead } from '../http1/request-head.ts'
import type { PageRoute } from './page-route.ts'

const STYLE = `
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
main { max-width: 32rem; margin: 10vh auto; padding: 0 1.25rem }
h1 { font-size: 1.4rem }
code { overflow-wrap: anywhere }
`
const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64')

const HEADERS = [
  'content-type',
  'text/html; charset=utf-8',
  'content-security-policy',
  `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'`,
  'x-content-type-options',
  'nosniff',
  'x-frame-options',
  'DENY',
  'referrer-policy',
  'no-referrer',
  'vary',
  'Accept',
]
const HSTS = ['strict-transport-security', 'max-age=31536000']

export type ProblemPages = (
  problem: Problem,
  head: RequestHead,
  requestId: string,
) => WholeResponse | undefined

/**
 * Returns the function that renders error pages. The function returns undefined if the client receives the problem
 * document instead: if the request is not for a page, if the client does not accept HTML, or if a dialog of Settings
 * sent the request (it shows the error below its form).
 */
export function createProblemPages(
  baseUrl: string,
  routeOf: (path: string) => PageRoute | undefined,
): ProblemPages {
  const fixedHeaders = baseUrl.startsWith('https:') ? [...HEADERS, ...HSTS] : HEADERS
  return (problem, { path, method, headers }, requestId) => {
    const acceptsHtml = readAccept(headers.get('accept') ?? '').get('text/html') === true
    if (!acceptsHtml || headers.has('x-dialog') || routeOf(path) === undefined) return undefined
    return {
      status: problem.status,
      headers: [...fixedHeaders, ...problemHeaders(problem)],
      body: Buffer.from(render(problem, method, requestId)),
    }
  }
}

/** For errors after which the backend may have carried out the action of the request. */
export const OUTCOME_UNKNOWN =
  'It is not known whether the change was made. Check this before you make the change again.'

export function formTooLarge({ bytesMax }: BodyLimits): Problem {
  const detail = `The form is larger than ${bytesMax / 1024} KiB. Go back and send less text or a smaller file.`
  return new Problem('payload_too_large', detail, { members: { max_bytes: bytesMax } })
}

function render(problem: Problem, method: string, requestId: string): string {
  const title = escapeText(problemType(problem.code).title)
  const isReadOnly = method === 'GET' || method === 'HEAD'
  // The text of an internal error is written for API calls: it mentions the Idempotency-Key.
  const internalError = isReadOnly
    ? 'Something went wrong on our side. Try again.'
    : OUTCOME_UNKNOWN
  const text = problem.code === 'internal_error' ? internalError : problem.message
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${title}</h1>
<p>${escapeText(text)}</p>
<p>Request <code translate="no">${escapeText(requestId)}</code></p>
</main>
</body>
</html>
`
}

function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
