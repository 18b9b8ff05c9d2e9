import { type Html, html } from '../html/html.ts'
import type { ContractDocument, DocumentedEvent } from './document.ts'
import { eventSample, SAMPLE_SECRET } from './event-samples.ts'
import { renderCode } from './markup/highlight.ts'
import { type Heading, renderHeading, renderMarkdown } from './markup/markdown.ts'
import type { Page } from './page.ts'
import { renderMethod, renderOperation } from './reference-operation.ts'
import { hasSection, renderSchema, renderType } from './schema.ts'

/** Renders a heading and adds it to the page's headings. The heading shows `inner`, or else `text`. */
type AddHeading = (depth: number, id: string, text: string, inner?: Html) => Html

export function referencePage(document: ContractDocument, baseUrl: string): Page {
  const headings: Heading[] = []
  function heading(depth: number, id: string, text: string, inner?: Html): Html {
    const added = { depth, id, text }
    headings.push(added)
    return renderHeading(added, inner)
  }

  const operationsOf = (name: string) => document.operations.filter(({ tag }) => tag === name)
  const main = html`${heading(1, 'reference', 'API reference')}
<p>Version ${document.version}. This page shows the OpenAPI 3.1 document (<a href="/docs/openapi.json">openapi.json</a>,
<a href="/docs/openapi.yaml">openapi.yaml</a>). Generate a client from this document, or use one of our
<a href="/docs/clients">clients</a>. All paths are under <code>${baseUrl}</code>.</p>
${renderOverview(document)}
${document.tags.map(
  ({ name, description }) => html`${heading(2, `tag-${name.toLowerCase()}`, name)}
${renderMarkdown(description).body}
${operationsOf(name).map((operation) =>
  renderOperation(
    document,
    operation,
    baseUrl,
    heading(3, operation.operationId, operation.summary),
  ),
)}`,
)}
${heading(2, 'events', 'Events')}
<p>We send these events to your webhook endpoints; see <a href="/docs/webhooks">Webhooks</a>. You can verify the signature
of each sample with the body exactly as shown and the secret <code>${SAMPLE_SECRET}</code>.</p>
${document.events.map((event) => renderEvent(document, event, heading))}
${heading(2, 'objects', 'Objects')}
<p>A successful response always has every field, with <code>null</code> where there is no value. An error has only the members that belong to its code.</p>
${[...document.schemas]
  .filter(([name]) => hasSection(document, name))
  .map(
    ([name, schema]) => html`<section>
${heading(3, name, name)}
${renderMarkdown(String(schema['description'] ?? '')).body}
${renderSchema(document, schema, name)}
</section>`,
  )}
${heading(2, 'headers', 'Response headers')}
${renderHeaders(document)}
${heading(2, 'conventions', 'Conventions')}
${renderMarkdown(document.description, { lowerHeadingsBy: 1 }).body}`
  return {
    path: '/docs/reference',
    title: 'API reference',
    summary: 'Every operation, field, header and event, with samples in eight languages.',
    main,
    headings,
    isWide: true,
  }
}

function renderOverview({ operations }: ContractDocument): Html {
  return html`<ul class="overview">
${operations.map(
  ({ operationId, method, path, summary }) =>
    html`<li><a href="#${operationId}">${summary}</a> ${renderMethod(method)} <code>${path}</code></li>`,
)}
</ul>`
}

function renderEvent(
  document: ContractDocument,
  { name, summary, description, body }: DocumentedEvent,
  heading: AddHeading,
): Html {
  const sample = eventSample(name)
  return html`<section class="operation">
<div class="about">
${heading(3, name, name, html`<code>${name}</code>`)}
${summary !== '' && html`<p>${summary}</p>`}
${renderMarkdown(description, { lowerHeadingsBy: 3 }).body}
${body && html`<p>Body: ${renderType(document, body.schema)}</p>`}
</div>
${
  sample &&
  html`<div class="samples">
<p class="caption">Headers</p>
${renderCode(
  Object.entries(sample.headers)
    .map(([header, value]) => `${header}: ${value}`)
    .join('\n'),
  'http',
)}
<p class="caption">Body</p>
${renderCode(sample.body, 'json')}
</div>`
}
</section>`
}

function renderHeaders(document: ContractDocument): Html {
  return html`<dl class="fields">
${[...document.headers].map(
  ([name, { description, schema, example }]) => html`<div id="header-${name.toLowerCase()}">
<dt><code>${name}</code> ${renderType(document, schema)}</dt>
<dd>${renderMarkdown(description).body}<p class="limits">Example <code>${String(example)}</code></p></dd>
</div>`,
)}
</dl>`
}
