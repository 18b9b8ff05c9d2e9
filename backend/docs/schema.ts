import { type Html, html } from '../html/html.ts'
import type { JsonObject } from '../validation/json.ts'
import { type ContractDocument, listOf, membersOf, textOf } from './document.ts'
import { renderMarkdown } from './markup/markdown.ts'

/**
 * Whether a named schema has its own section in the reference. Enumerations and objects with named fields have one,
 * unless their name begins with `Nullable`: such a schema is shown like an unnamed schema.
 */
export function hasSection(document: ContractDocument, name: string): boolean {
  const schema = document.schemas.get(name)
  if (schema === undefined || name.startsWith('Nullable')) return false
  return 'properties' in schema || 'enum' in schema || 'allOf' in schema
}

/** `id` is the prefix of the fields' HTML ids, e.g. `Invoice` for `Invoice.amount_due`. */
export function renderSchema(document: ContractDocument, schema: JsonObject, id: string): Html {
  const parts = listOf(schema['allOf'])
  if (parts.length > 0) {
    return html`${parts.map((part) => {
      const name = referredName(part)
      return name === undefined
        ? renderSchema(document, membersOf(part), id)
        : html`<p>All fields of <a href="#${name}">${name}</a>, and:</p>`
    })}`
  }
  if ('properties' in schema) return renderFields(document, schema, id)
  return html`<p>${renderType(document, schema)}</p>`
}

/** The list also contains the fields of nested objects whose schema is inline, e.g. `delivery.bounce`. */
function renderFields(document: ContractDocument, schema: JsonObject, id: string): Html {
  return html`<dl class="fields">${fieldsOf(document, schema, '', id)}</dl>`
}

function fieldsOf(
  document: ContractDocument,
  schema: JsonObject,
  prefix: string,
  id: string,
): Html[] {
  // Only fields of requests are marked as required, because a successful response has every field. Only the schemas of
  // requests have `additionalProperties: false`.
  const required = schema['additionalProperties'] === false ? listOf(schema['required']) : []
  return Object.entries(membersOf(schema['properties'])).flatMap(([name, value]) => {
    const field = prefix + name
    const fieldSchema = membersOf(value)
    const items = membersOf(fieldSchema['items'])
    const nested = [
      ...('properties' in fieldSchema ? fieldsOf(document, fieldSchema, `${field}.`, id) : []),
      ...('properties' in items ? fieldsOf(document, items, `${field}[].`, id) : []),
    ]
    const named = { name: field, id: `${id}.${field.replaceAll('[]', '')}` }
    return [renderField(document, named, fieldSchema, required.includes(name)), ...nested]
  })
}

export function renderField(
  document: ContractDocument,
  { name, id }: { readonly name: string; readonly id: string },
  schema: JsonObject,
  isRequired: boolean,
): Html {
  const resolved = document.resolve(schema)
  const description = textOf(resolved['description'])
  return html`<div id="${id}">
<dt><code>${name}</code> ${renderType(document, schema)}${isRequired && html` <span class="required">required</span>`}<a class="anchor" href="#${id}" aria-label="Link to ${name}">#</a></dt>
<dd>${description !== '' && renderMarkdown(description).body}${renderLimits(resolved)}</dd>
</div>`
}

export function renderType(document: ContractDocument, schema: JsonObject): Html {
  const name = referredName(schema)
  if (name !== undefined && hasSection(document, name)) {
    return html`<span class="type"><a href="#${name}">${name}</a></span>`
  }
  const resolved = document.resolve(schema)
  if ('items' in resolved) {
    const orNull = listOf(resolved['type']).includes('null') && ' or null'
    const items = renderType(document, membersOf(resolved['items']))
    return html`<span class="type">list of</span> ${items}<span class="type">${orNull}</span>`
  }
  if ('const' in resolved) return html`<code>${JSON.stringify(resolved['const'])}</code>`
  return html`<span class="type">${typeWords(resolved)}</span>`
}

const FORMATS: Readonly<Record<string, string>> = {
  date: 'date',
  'date-time': 'time',
  email: 'e-mail address',
  uri: 'address',
}

function typeWords(schema: JsonObject): string {
  const types = [schema['type']].flat().map(String)
  const format = FORMATS[textOf(schema['format'])]
  return types.map((type) => (type === 'string' && format ? format : type)).join(' or ')
}

function renderLimits(schema: JsonObject): Html | undefined {
  // The type of the field already says whether null is allowed.
  const values = listOf(schema['enum']).filter((value) => value !== null)
  const limits = [
    rangeWords(schema['minLength'], schema['maxLength'], 'characters'),
    rangeWords(schema['minItems'], schema['maxItems'], 'items'),
    rangeWords(schema['minimum'], schema['maximum'], ''),
    rangeWords(undefined, schema['maxProperties'], 'members'),
  ].filter((words) => words !== undefined)
  const fallback = schema['default']
  if (values.length === 0 && limits.length === 0 && fallback === undefined) return undefined
  return html`<p class="limits">${values.length > 0 && html`One of ${codes(values)}. `}${
    limits.length > 0 && `${limits.join(', ')}. `
  }${fallback !== undefined && html`Default <code>${String(fallback)}</code>.`}</p>`
}

function rangeWords(least: unknown, most: unknown, unit: string): string | undefined {
  const formatNumber = (value: unknown) => String(value).replace(/\B(?=(\d{3})+$)/g, ' ')
  const end = unit === '' ? '' : ` ${unit}`
  // This maximum only means that the number is an exact integer.
  if (most === Number.MAX_SAFE_INTEGER) return rangeWords(least, undefined, unit)
  if (least !== undefined && most !== undefined)
    return `${formatNumber(least)} to ${formatNumber(most)}${end}`
  if (most !== undefined) return `At most ${formatNumber(most)}${end}`
  return least === undefined ? undefined : `At least ${formatNumber(least)}${end}`
}

function codes(values: readonly unknown[]): Html[] {
  return values.map((value, at) => html`${at > 0 && ', '}<code>${String(value)}</code>`)
}

/** Returns `Debtor` for a reference to `#/components/schemas/Debtor`. */
function referredName(schema: unknown): string | undefined {
  return /^#\/components\/schemas\/(.+)$/.exec(textOf(membersOf(schema)['$ref']))?.[1]
}
