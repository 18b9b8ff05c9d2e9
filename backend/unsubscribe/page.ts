/**
 * The page that an unsubscribe link opens. It loads no files, such as the style sheet of Settings, because an operator
 * may make Settings unreachable for the recipients of mail. The empty icon in the page prevents browsers
 * from requesting `/favicon.ico`.
 */
import { createHash } from 'node:crypto'
import { Html, html } from '../html/html.ts'
import type { Language } from '../mail/wording/languages.ts'
import { UNSUBSCRIBE_WORDS } from './words.ts'

const STYLE = `
:root { color-scheme: light dark; --ink: #1c2330; --soft: #56606f; --paper: #fff; --ground: #f3f5f8; --line: #dfe4ea; --accent: #1f4fd8; --on-accent: #fff }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebf0; --soft: #a8b1be; --paper: #1a202b; --ground: #11151c; --line: #2e3745; --accent: #9bb5ff; --on-accent: #11151c } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--ground); color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif }
main { width: 100%; max-width: 30rem; padding: clamp(1.5rem, 6vw, 2.5rem); background: var(--paper); border: 1px solid var(--line); border-radius: .75rem; overflow-wrap: anywhere }
h1 { margin: 0 0 .75rem; font-size: 1.375rem; line-height: 1.25; text-wrap: balance }
p { margin: 0 0 1rem } form { margin: 1.5rem 0 0 } .soft { color: var(--soft) }
button { width: 100%; min-height: 2.75rem; padding: .6rem 1rem; font: inherit; font-weight: 600; border: 1px solid var(--accent); border-radius: .5rem; background: var(--accent); color: var(--on-accent); cursor: pointer }
button.quiet { background: transparent; color: var(--accent) }
button:focus-visible { outline: 3px solid var(--accent); outline-offset: 3px }
`

const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64')

/** Sent in addition to the headers of all pages. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    `style-src 'sha256-${STYLE_HASH}'`,
    'img-src data:',
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; '),
  'cache-control': 'no-store',
  'x-robots-tag': 'noindex',
  vary: 'Accept-Language',
}

export interface UnsubscribeView {
  readonly language: Language
  readonly state: 'confirm' | 'stopped' | 'resumed'
  readonly creditor: string
  /** The masked address. */
  readonly address: string
}

/**
 * The forms have no action, so that they post to the page's own URL. The form that stops reminders sends the same field
 * as a mail program that unsubscribes with one click (RFC 8058).
 */
export function renderUnsubscribe({ language, state, creditor, address }: UnsubscribeView): string {
  const words = UNSUBSCRIBE_WORDS[language]
  if (state === 'stopped') {
    return render(language, words.stoppedTitle, [
      html`<p>${words.explainStopped(creditor, address)}</p><p class="soft">${words.stillOwedNote}</p>`,
      html`<form method="post"><input type="hidden" name="wish" value="resume"><button class="quiet">${words.resumeLabel}</button></form>`,
    ])
  }
  const stop = html`<form method="post"><input type="hidden" name="List-Unsubscribe" value="One-Click"><button class="${state === 'confirm' ? '' : 'quiet'}">${words.stopLabel}</button></form>`
  if (state === 'resumed') {
    return render(language, words.resumedTitle, [
      html`<p>${words.explainResumed(creditor, address)}</p>`,
      stop,
    ])
  }
  return render(language, words.confirmTitle, [
    html`<p>${words.explain(creditor, address)}</p><p class="soft">${words.stillOwedNote}</p>`,
    stop,
  ])
}

export function renderBrokenLink(language: Language): string {
  const { brokenLinkTitle, explainBrokenLink } = UNSUBSCRIBE_WORDS[language]
  return render(language, brokenLinkTitle, [html`<p>${explainBrokenLink}</p>`])
}

function render(language: Language, title: string, parts: readonly Html[]): string {
  return html`<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${new Html(STYLE)}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${parts}
</main>
</body>
</html>
`.text
}
