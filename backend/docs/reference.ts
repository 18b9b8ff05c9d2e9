/** The reference: every operation, event, object and header of the OpenAPI document, on one page. */
import { PROBLEM_TYPES, type ProblemCode, problemType } from '../../shared/contract/problem.ts'
import { type Html, html } from '../html/html.ts'
import { renderCurl } from './curl.ts'
import {
  type Content,
  type ContractDocument,
  type DocumentedOperation,
  type DocumentedResponse,
  membersOf,
  type Parameter,
} from './document.ts'
import { type Heading, renderHeading, renderMarkdown } from './markdown.ts'
import type { Page } from './page.ts'
import { hasSection, renderField, renderSchema, renderType } from './schema.ts'

export function referencePage(document: ContractDocument, baseUrl: string): Page {
  const headings: Heading[] = []
  function heading(depth: number, id: string, text: string, inner?: Html): Html {
    const it = { depth, id, text }
    headings.push(it)
    return renderHeading(it, inner)
  }

  function renderOperation(operation: DocumentedOperation): Html {
    const { operationId, method, path, summary, description, scope, parameters, body } = operation
    const answers = operation.responses.filter(({ status }) => status.startsWith('2'))
    const refusals = operation.responses.filter((response) => !answers.includes(response))
    return html`<section class="operation">
${heading(3, operationId, summary)}
<p class="route">${renderMethod(method)} <code>${path}</code></p>
${renderMarkdown(description, { lower: 3 }).body}
<p>Scope: ${scope === undefined ? 'none, any valid key' : html`<code>${scope}</code>`}.</p>
${renderParameters(document, parameters)}
${body && renderBody(document, body)}
<h4>Example call</h4>
<pre><code data-language="sh">${renderCurl(operation, baseUrl)}</code></pre>
${answers.map((answer) => renderAnswer(document, answer))}
<h4>Refusals</h4>
${renderRefusals(refusals)}
</section>`
  }

  const ofTag = (name: string) => document.operations.filter(({ tag }) => tag === name)
  const main = html`${heading(1, 'reference', 'Reference')}
<p>Version ${document.version}. The same as a document to generate clients from:
<a href="/docs/openapi.json">openapi.json</a>, <a href="/docs/openapi.yaml">openapi.yaml</a>
(OpenAPI 3.1); <a href="/docs/clients">types and collections</a> are made from it. All paths are under <code>${baseUrl}</code>.</p>
${renderOverview(document)}
${document.tags.map(
  ({ name, description }) => html`${heading(2, `tag-${name.toLowerCase()}`, name)}
${renderMarkdown(description).body}
${ofTag(name).map(renderOperation)}`,
)}
${
  document.events.length > 0 &&
  html`${heading(2, 'events', 'Events')}
<p>What is sent to your webhook endpoints; see <a href="/docs/webhooks">Webhooks</a>.</p>
${document.events.map(
  ({ name, summary, description, body }) => html`<section class="operation">
${heading(3, name, name, html`<code>${name}</code>`)}
${summary !== '' && html`<p>${summary}</p>`}
${renderMarkdown(description, { lower: 3 }).body}
${body && html`<p>Body: ${renderType(document, body.schema)}</p>`}
${body && renderExamples(body)}
</section>`,
)}`
}
${heading(2, 'objects', 'Objects')}
<p>In an answer every field is always there, <code>null</code> where it has no value.</p>
${[...document.schemas]
  .filter(([name]) => hasSection(document, name))
  .map(
    ([name, schema]) => html`<section>
${heading(3, name, name)}
${renderMarkdown(String(schema['description'] ?? '')).body}
${renderSchema(document, schema)}
</section>`,
  )}
${heading(2, 'headers', 'Headers of answers')}
<dl class="fields">
${[...document.headers].map(
  ([name, { description, schema, example }]) => html`<div id="header-${name.toLowerCase()}">
<dt><code>${name}</code> ${renderType(document, schema)}</dt>
<dd>${renderMarkdown(description).body}<p class="limits">Example <code>${String(example)}</code></p></dd>
</div>`,
)}
</dl>
${heading(2, 'conventions', 'Conventions')}
${renderMarkdown(document.description, { lower: 1 }).body}`
  return {
    path: '/docs/reference',
    title: 'Reference',
    summary: 'Every operation, field, header and event.',
    main,
    headings,
  }
}

function renderMethod(method: string): Html {
  return html`<span class="method"${method !== 'GET' && html` data-writes`}>${method}</span>`
}

function renderOverview({ operations }: ContractDocument): Html {
  return html`<ul class="overview">
${operations.map(
  ({ operationId, method, path, summary }) =>
    html`<li><a href="#${operationId}">${summary}</a> <span class="route">${renderMethod(method)} <code>${path}</code></span></li>`,
)}
</ul>`
}

function renderParameters(document: ContractDocument, parameters: readonly Parameter[]): Html[] {
  const titles = { path: 'In the path', query: 'In the query', header: 'Headers' } as const
  return (['path', 'header', 'query'] as const).flatMap((place) => {
    const here = parameters.filter((parameter) => parameter.place === place)
    if (here.length === 0) return []
    return html`<h4>${titles[place]}</h4>
<dl class="fields">
${here.map(({ name, required, description, schema }) =>
  renderField(document, name, { ...schema, description }, required),
)}
</dl>`
  })
}

function renderBody(document: ContractDocument, body: Content): Html {
  return html`<h4>Body</h4>
<p>A <code>Content-Type: application/json</code> object: ${renderType(document, body.schema)}</p>
${renderSchema(document, document.resolve(body.schema))}`
}

function renderAnswer(
  document: ContractDocument,
  { status, description, headers, content }: DocumentedResponse,
): Html {
  return html`<h4>Answer ${status}</h4>
${renderMarkdown(description).body}
${
  content &&
  html`<p>Body: ${renderType(document, content.schema)}. Headers: ${[...headers.keys()].map(
    (name, at) => html`${at > 0 && ', '}<a href="#header-${name.toLowerCase()}">${name}</a>`,
  )}.</p>`
}
${content && renderExamples(content)}`
}

function renderExamples({ examples }: Content): Html[] {
  return examples.map(
    ({ summary, value }) => html`<details>
<summary>${summary === '' ? 'Example' : `Example: ${summary}`}</summary>
<pre><code data-language="json">${JSON.stringify(value, null, 2)}</code></pre>
</details>`,
  )
}

/** Every code that a response shows an example of. */
function renderRefusals(responses: readonly DocumentedResponse[]): Html {
  const codes = responses.flatMap(({ content }) =>
    (content?.examples ?? []).map(({ value }) => String(membersOf(value)['code'])),
  )
  const byStatus = Map.groupBy(codes.filter(isProblemCode), (code) => problemType(code).status)
  return html`<ul class="refusals">
${[...byStatus]
  .toSorted(([a], [b]) => a - b)
  .map(
    ([status, ofStatus]) =>
      html`<li>${status} ${ofStatus.map(
        (code) => html` <a href="/docs/errors#${code}"><code>${code}</code></a>`,
      )}</li>`,
  )}
</ul>`
}

function isProblemCode(code: string): code is ProblemCode {
  return code in PROBLEM_TYPES
}
