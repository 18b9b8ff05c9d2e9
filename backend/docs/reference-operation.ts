import { PROBLEM_TYPES, type ProblemCode, problemType } from '../../shared/contract/problem.ts'
import { type Html, html } from '../html/html.ts'
import {
  type Content,
  type ContractDocument,
  type DocumentedOperation,
  type DocumentedResponse,
  type Example,
  membersOf,
  type Parameter,
} from './document.ts'
import { renderCode } from './markup/highlight.ts'
import { renderMarkdown } from './markup/markdown.ts'
import { renderTabs } from './markup/tabs.ts'
import { requestSamples } from './request-samples.ts'
import { renderField, renderSchema, renderType } from './schema.ts'

export function renderOperation(
  document: ContractDocument,
  operation: DocumentedOperation,
  baseUrl: string,
  heading: Html,
): Html {
  const { operationId, method, path, description, scope, parameters, body, responses } = operation
  const successes = responses.filter(({ status }) => status.startsWith('2'))
  const errors = responses.filter((response) => !successes.includes(response))
  return html`<section class="operation">
<div class="about">
${heading}
<p>${renderMethod(method)} <code>${path}</code></p>
${renderMarkdown(description, { lowerHeadingsBy: 3 }).body}
<p>Scope: ${scope === undefined ? 'none, any valid key' : html`<code>${scope}</code>`}.</p>
${renderParameters(document, operationId, parameters)}
${body && renderBody(document, operationId, body)}
${successes.map((response) => renderSuccess(document, response))}
<h4>Errors</h4>
${renderErrors(errors)}
</div>
<div class="samples">
${renderRequests(operation, baseUrl)}
${renderResponses(operation)}
</div>
</section>`
}

export function renderMethod(method: string): Html {
  return html`<span class="method"${method !== 'GET' && html` data-writes`}>${method}</span>`
}

function renderParameters(
  document: ContractDocument,
  operationId: string,
  parameters: readonly Parameter[],
): Html[] {
  const titles = { path: 'Path', query: 'Query', header: 'Headers' } as const
  return (['path', 'header', 'query'] as const).flatMap((location) => {
    const ofLocation = parameters.filter((parameter) => parameter.location === location)
    if (ofLocation.length === 0) return []
    return html`<h4>${titles[location]}</h4>
<dl class="fields">
${ofLocation.map(({ name, required, description, schema }) => {
  const id = `${operationId}.${location}.${name}`
  return renderField(document, { name, id }, { ...schema, description }, required)
})}
</dl>`
  })
}

function renderBody(document: ContractDocument, operationId: string, body: Content): Html {
  return html`<h4>Body</h4>
<p>A JSON object, sent with <code>Content-Type: application/json</code>: ${renderType(document, body.schema)}</p>
${renderSchema(document, document.resolve(body.schema), `${operationId}.body`)}`
}

function renderSuccess(
  document: ContractDocument,
  { status, description, headers, content }: DocumentedResponse,
): Html {
  return html`<h4>Response ${status}</h4>
${renderMarkdown(description).body}
${
  content &&
  html`<p>Body: ${renderType(document, content.schema)}. Headers: ${[...headers.keys()].map(
    (name, at) => html`${at > 0 && ', '}<a href="#header-${name.toLowerCase()}">${name}</a>`,
  )}.</p>`
}`
}

function renderRequests(operation: DocumentedOperation, baseUrl: string): Html {
  const examples = operation.body?.examples ?? []
  const [first, ...others] = examples
  const samples = (example?: Example) =>
    renderTabs(
      'language',
      `Request: ${example?.summary || operation.summary}`,
      requestSamples(operation, baseUrl, example).map(({ label, language, code }) => ({
        label,
        content: renderCode(code, language),
      })),
    )
  return html`<p class="caption">Request${first && first.summary !== '' && `: ${first.summary}`}</p>
${samples(first)}
${others.map(
  (example) => html`<details class="more"><summary>${example.summary}</summary>
${samples(example)}</details>`,
)}`
}

function renderResponses({ responses, summary }: DocumentedOperation): Html {
  const tabs = responses
    .filter(({ content }) => (content?.examples ?? []).length > 0)
    .map(({ status, content }) => ({
      label: status === 'default' ? 'Other' : status,
      content: html`${(content?.examples ?? []).map(
        ({ summary: title, value }) =>
          html`${title !== '' && html`<p class="caption">${title}</p>`}${renderCode(
            JSON.stringify(value, null, 2),
            // Problems are short, and highlighting all of them would double the size of the page.
            status.startsWith('2') ? 'json' : 'text',
          )}`,
      )}`,
    }))
  return html`<p class="caption">Response</p>
${renderTabs('status', `Response: ${summary}`, tabs)}`
}

/** The codes are those in the examples of the responses. */
function renderErrors(responses: readonly DocumentedResponse[]): Html {
  const codes = responses.flatMap(({ content }) =>
    (content?.examples ?? []).map(({ value }) => String(membersOf(value)['code'])),
  )
  const byStatus = Map.groupBy(codes.filter(isProblemCode), (code) => problemType(code).status)
  return html`<ul class="errors">
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
