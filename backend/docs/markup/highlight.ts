/** Highlights code samples on the server, so that pages need neither a script nor inline styles for this. */
import highlighter from 'highlight.js/lib/core'
import bash from 'highlight.js/lib/languages/bash'
import csharp from 'highlight.js/lib/languages/csharp'
import go from 'highlight.js/lib/languages/go'
import http from 'highlight.js/lib/languages/http'
import java from 'highlight.js/lib/languages/java'
import javascript from 'highlight.js/lib/languages/javascript'
import json from 'highlight.js/lib/languages/json'
import php from 'highlight.js/lib/languages/php'
import python from 'highlight.js/lib/languages/python'
import ruby from 'highlight.js/lib/languages/ruby'
import typescript from 'highlight.js/lib/languages/typescript'
import { Html, html } from '../../html/html.ts'

/** The languages by their names in the code blocks of the guides and the samples of the reference. */
const LANGUAGES = {
  sh: bash,
  csharp,
  go,
  http,
  java,
  js: javascript,
  json,
  php,
  python,
  ruby,
  ts: typescript,
}

for (const [name, language] of Object.entries(LANGUAGES)) {
  highlighter.registerLanguage(name, language)
}

/** A cache: most samples appear several times, e.g. the errors that every operation has. */
const renderedBlocks = new Map<string, Html>()

/** Renders a code block, without colors if the language is not in `LANGUAGES`. */
export function renderCode(code: string, language: string): Html {
  const cached = renderedBlocks.get(`${language}\n${code}`)
  if (cached !== undefined) return cached
  const inner = Object.hasOwn(LANGUAGES, language)
    ? new Html(highlighter.highlight(code, { language }).value)
    : html`${code}`
  // With `tabindex`, a wide block can be scrolled with the keyboard.
  const block = html`<pre tabindex="0"><code data-language="${language}">${inner}</code></pre>\n`
  renderedBlocks.set(`${language}\n${code}`, block)
  return block
}
