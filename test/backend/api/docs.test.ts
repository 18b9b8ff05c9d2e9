import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { SAMPLE_SECRET } from '../../../backend/docs/event-samples.ts'
import { renderedDocs } from '../../../backend/docs/rendered-docs.ts'
import { EVENT_TYPES } from '../../../backend/events/event-types.ts'
import { withRevision } from '../../../backend/events/events.ts'
import { sampleOf } from '../../../backend/webhooks/samples.ts'
import { BUFFERED_BYTES_MAX } from '../../../gateway/pages/page-body.ts'
import { PROBLEM_TYPES, SETTINGS_PROBLEM_TYPES } from '../../../shared/contract/problem.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { BASE_URL, startBackend } from '../../fixtures/service/backend.ts'

const backend = await startBackend(t)
await renderedDocs(BASE_URL)
const startPage = await backend.request('GET', '/docs')
const paths = [...startPage.text.matchAll(/<li><a href="(\/docs[\w/-]*)"/g)].map(([, path]) => path)
const pages = new Map<string, string>()
for (const path of new Set(['/docs', ...paths.filter((path) => path !== undefined)])) {
  pages.set(path, (await backend.request('GET', path)).text)
}

const idsOf = (page: string) => [...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id)

t.test('the documentation has every guide', async (t) => {
  const guides = [
    'first-call',
    'authentication',
    'rate-limits',
    'payments',
    'syncing',
    'messages',
    'webhooks',
    'money',
    'clients',
    'pagination',
    'testing',
    'going-live',
    'changelog',
    'glossary',
    'questions',
    'help',
  ]
  for (const name of [...guides, 'errors', 'versioning', 'reference']) {
    t.ok(pages.has(`/docs/${name}`), name)
  }
})

// Regression: when the lines of a guide were joined, a code block became inline code that began with `sh`.
t.test('inline code does not begin with the language of a code block', async (t) => {
  for (const [path, page] of pages)
    t.notMatch(page, /<code>(?:sh|text|json|http|js|ts|python|php|go) /, path)
})

t.test('gateways buffer each page whole', async (t) => {
  for (const [path, page] of pages) t.ok(Buffer.byteLength(page) <= BUFFERED_BYTES_MAX, path)
})

t.test('every link has a target', async (t) => {
  const ids = new Map<string, ReadonlySet<string | undefined>>()
  const texts = new Map(pages)
  for (const [path, page] of pages) {
    t.equal(new Set(idsOf(page)).size, idsOf(page).length, `the ids of ${path} are unique`)
    const broken: string[] = []
    for (const [, href = ''] of page.matchAll(
      /(?:href|src|data-index|data-script|data-library)="([^"]+)"/g,
    )) {
      if (!/^[/#]/.test(href)) {
        if (!/^(?:data:,|https:\/\/)/.test(href)) broken.push(href)
        continue
      }
      const [file = '', id] = href.split('#')
      const targetPath = file === '' ? path : file
      const target = texts.get(targetPath) ?? (await textOf(targetPath))
      if (target === undefined) broken.push(href)
      texts.set(targetPath, target ?? '')
      const targetIds = ids.get(targetPath) ?? new Set(idsOf(target ?? ''))
      ids.set(targetPath, targetIds)
      if (id !== undefined && !targetIds.has(id)) broken.push(href)
    }
    t.strictSame(broken, [], `links of ${path}`)
  }
})

async function textOf(path: string): Promise<string | undefined> {
  const { status, text } = await backend.request('GET', path)
  // Settings redirects to its login.
  return status === 200 || (path === '/settings' && status === 303) ? text : undefined
}

t.test('the page of errors has one section for each error code, and no others', async (t) => {
  const errors = pages.get('/docs/errors') ?? ''
  const sections = [...errors.matchAll(/<h3 id="([^"]+)">[^\n]+\n<p class="facts">(\d+) · /g)]
  const types = { ...PROBLEM_TYPES, ...SETTINGS_PROBLEM_TYPES }
  t.strictSame(
    sections.map(([, code, status]) => `${status} ${code}`).toSorted(),
    Object.entries(types)
      .map(([code, { status }]) => `${status} ${code}`)
      .toSorted(),
  )
  t.equal(errors.match(/<h3 /g)?.length, sections.length)
})

t.test('the reference has every operation and every field of the OpenAPI document', async (t) => {
  const reference = pages.get('/docs/reference') ?? ''
  const { json } = await backend.request('GET', '/docs/openapi.json')
  const { paths, components, webhooks } = JSON.parse(JSON.stringify(json))
  for (const [path, item] of Object.entries<Record<string, { operationId: string }>>(paths)) {
    matches(t, reference, containing(path))
    for (const { operationId } of Object.values(item)) {
      t.ok(idsOf(reference).includes(operationId), operationId)
    }
  }
  for (const { properties = {} } of Object.values<{ properties?: object }>(components.schemas)) {
    for (const name of Object.keys(properties))
      matches(t, reference, containing(`<dt><code>${name}</code>`))
  }
  for (const event of Object.keys(webhooks)) t.ok(idsOf(reference).includes(event), event)
  for (const name of Object.keys(components.headers)) {
    t.ok(idsOf(reference).includes(`header-${name.toLowerCase()}`), name)
  }
})

t.test(
  'every operation has an example request in eight languages and a response of each status',
  async (t) => {
    const reference = pages.get('/docs/reference') ?? ''
    const { json } = await backend.request('GET', '/docs/openapi.json')
    const operations = Object.values<Record<string, { operationId: string; responses: object }>>(
      JSON.parse(JSON.stringify(json)).paths,
    ).flatMap((item) => Object.values(item))
    t.equal(operations.length, 10)
    for (const { operationId, responses } of operations) {
      const [, afterHeading = ''] = reference.split(`<h3 id="${operationId}">`)
      const [section = ''] = afterHeading.split('</section>')
      const labels = [...section.matchAll(/<summary>([^<]+)<\/summary>\n<(?:pre|p)/g)].map(
        ([, label]) => label,
      )
      const languages = ['curl', 'JavaScript', 'Python', 'PHP', 'Ruby', 'Go', 'C#', 'Java']
      const statuses = Object.keys(responses).map((status) => status.replace('default', 'Other'))
      for (const label of [...languages, ...statuses])
        t.ok(labels.includes(label), `${operationId} ${label}`)
      t.ok(unescaped(section).includes(`${BASE_URL}/api/v1/`))
    }
  },
)

t.test(
  'every event type has a sample with the payload of a test event and a valid signature',
  async (t) => {
    const reference = pages.get('/docs/reference') ?? ''
    for (const type of EVENT_TYPES) {
      const [, afterHeading = ''] = reference.split(`<h3 id="${type}">`)
      const [section = ''] = afterHeading.split('</section>')
      const [headers = '', body = ''] = [...section.matchAll(/<pre[^>]*>(.*?)<\/pre>/gs)].map(
        ([, code = '']) => unescaped(code),
      )
      const webhook = new Webhook(SAMPLE_SECRET)
      const sampleHeaders = Object.fromEntries(headers.split('\n').map((line) => line.split(': ')))
      // `verify` rejects old timestamps, so the test compares the signature with the result of `sign`.
      const at = new Date(Number(sampleHeaders['webhook-timestamp']) * 1000)
      t.equal(
        sampleHeaders['webhook-signature'],
        webhook.sign(sampleHeaders['webhook-id'], at, body),
        type,
      )
      const event = JSON.parse(body)
      t.equal(event.type, type)
      t.strictSame(event.data, JSON.parse(JSON.stringify(withRevision(sampleOf(type)))))
    }
  },
)

t.test('the search index has every section, as plain text', async (t) => {
  const [, path = ''] = /data-index="([^"]+)"/.exec(startPage.text) ?? []
  const response = await backend.request('GET', path)
  matches(t, response.headers.get('cache-control'), /immutable/)
  const { storedFields } = JSON.parse(response.text)
  const sections = Object.values<{ href: string; title: string; text: string }>(storedFields)
  for (const [page, text] of pages) {
    if (page === '/docs') continue
    const headings = [...text.matchAll(/<h[23] id="([^"]+)"/g)].map(([, id]) => `${page}#${id}`)
    const found = sections.map(({ href }) => href)
    t.strictSame(
      headings.filter((href) => !found.includes(href)),
      [],
      page,
    )
  }
  const payment = sections.find(({ href }) => href === '/docs/reference#createPayment')
  t.equal(payment?.title, 'Record a payment')
  matches(t, payment?.text, /payment_exceeds_balance/)
  t.notMatch(JSON.stringify(sections), /<\/|&amp;|&quot;/)
})

t.test('pages contain the address of the service, and no local address', async (t) => {
  // Examples of the reader's own webhook receiver run on localhost.
  const receivers = /http:\/\/127\.0\.0\.1:3000\/|&quot;localhost&quot;/g
  for (const [path, page] of pages) {
    t.notMatch(page.replaceAll(receivers, ''), /localhost|127\.0\.0\.1/, path)
  }
  matches(t, pages.get('/docs/reference'), containing(`${BASE_URL}/api/v1/payments`))
  const yaml = await backend.request('GET', '/docs/openapi.yaml')
  matches(t, yaml.text, containing(`default: ${BASE_URL}`))
})

t.test(
  'no page has inline scripts or styles, and its content security policy forbids them',
  async (t) => {
    for (const [path, page] of pages) {
      t.notMatch(page, /<script(?! type="module" src=)|<style|\sstyle=|\son\w+=|javascript:/, path)
    }
    const { headers } = startPage
    matches(t, headers.get('content-security-policy'), /^default-src 'none'; script-src 'self'; /)
    t.notMatch(headers.get('content-security-policy'), /unsafe|https?:|\*/)
    t.equal(headers.get('x-content-type-options'), 'nosniff')
    t.equal(
      headers.get('strict-transport-security'),
      'max-age=31536000',
      'the value that Settings sends',
    )
  },
)

t.test('a request for an unchanged page gets 304', async (t) => {
  const tag = startPage.headers.get('etag') ?? ''
  t.equal(startPage.headers.get('cache-control'), 'no-cache')
  const revalidated = await backend.request('GET', '/docs', { headers: { 'if-none-match': tag } })
  matches(t, revalidated, { status: 304, text: '' })
})

t.test('If-None-Match compares weakly, and * matches every page', async (t) => {
  // Regression: `*`, and the weakened ETag of a compressed page, got the whole page (RFC 9110, section 13.1.2).
  for (const encoding of ['identity', 'gzip']) {
    const request = (headers: Record<string, string>) =>
      backend.request('GET', '/docs', { headers: { 'accept-encoding': encoding, ...headers } })
    const tag = (await request({})).headers.get('etag') ?? ''
    for (const value of [`W/${tag}`, '*', `"other", W/${tag}`, ` ${tag} ,"other"`]) {
      const response = await request({ 'if-none-match': value })
      matches(t, response, { status: 304, text: '' }, `${encoding} ${value}`)
      t.equal(response.headers.get('etag'), tag)
    }
    for (const value of ['"other"', 'W/"other"', '"*"']) {
      t.equal((await request({ 'if-none-match': value })).status, 200, `${encoding} ${value}`)
    }
  }
})

t.test('the Postman collection has a call of each operation, as in the reference', async (t) => {
  const { text } = await backend.request('GET', '/docs/receivables.postman_collection.json')
  const { info, variable, item: folders } = JSON.parse(text)
  matches(t, info.schema, /v2\.1\.0/)
  t.equal(variable[0].value, BASE_URL)
  const reference = unescaped(pages.get('/docs/reference') ?? '')
  const calls = new Set<string>()
  for (const { request } of folders.flatMap(({ item }: { item: object[] }) => item)) {
    const { method, url, header, body } = request
    calls.add(`${method} /${url.path.join('/')}`)
    matches(t, reference, containing(url.raw.replace('{{base_url}}', BASE_URL)))
    const sent = header.filter(({ disabled }: { disabled?: true }) => !disabled)
    for (const { key, value } of sent) matches(t, reference, containing(`${key}: ${value}`))
    t.equal(method === 'POST', body !== undefined)
    if (body !== undefined) t.type(JSON.parse(body.raw), 'object')
  }
  t.equal(calls.size, 10)
})

function unescaped(markup: string): string {
  return markup
    .replace(/<[^>]+>/g, '')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&#x27;', "'")
    .replaceAll('&amp;', '&')
}

t.test('a client that accepts gzip gets a compressed page with its own ETag', async (t) => {
  const path = '/docs/reference'
  const request = (encoding: string) =>
    backend.request('GET', path, { headers: { 'accept-encoding': encoding } })
  const [plain, zipped] = await Promise.all([request('identity'), request('br, gzip')])
  t.equal(plain.headers.get('content-encoding'), null)
  t.equal(zipped.headers.get('content-encoding'), 'gzip')
  t.ok(Number(zipped.headers.get('content-length')) < 110_000)
  t.equal(zipped.text, plain.text)
  t.not(zipped.headers.get('etag'), plain.headers.get('etag'))
  matches(t, zipped.headers.get('vary'), /accept-encoding/i)
  // Regression: `gzip;q=0.5` and `identity;q=0, *` got the plain page, and `not-gzip` a compressed page (RFC 9110,
  // section 12.5.3).
  const zippedFor =
    'GZIP|x-gzip|gzip;q=0.5|br;q=1.0, gzip;q=0.8, *;q=0.1|gzip, *;q=0|identity;q=0, *'
  const plainFor =
    'gzip;q=0|gzip ; Q=0.000|*;q=0|identity;q=0|gzip;q=0.5, identity|not-gzip|gzip;level=9;q=1|'
  for (const encoding of zippedFor.split('|')) {
    t.equal((await request(encoding)).headers.get('content-encoding'), 'gzip', encoding)
  }
  for (const encoding of plainFor.split('|')) {
    const response = await request(encoding)
    t.equal(response.headers.get('content-encoding'), null, encoding)
    t.equal(response.headers.get('etag'), plain.headers.get('etag'), encoding)
  }
  const headers = { 'accept-encoding': 'gzip', 'if-none-match': zipped.headers.get('etag') ?? '' }
  matches(t, await backend.request('GET', path, { headers }), { status: 304, text: '' })
})

t.test('a request for an unknown path gets a page with status 404', async (t) => {
  const response = await backend.request('GET', '/docs/nowhere')
  matches(t, response, { status: 404, text: /There is no such page/ })
  matches(t, response.headers.get('content-security-policy'), /^default-src 'none'/)
})

t.test('the guide to messages has every status and every reason for suppression', async (t) => {
  const { json } = await backend.request('GET', '/docs/openapi.json')
  const { schemas } = JSON.parse(JSON.stringify(json)).components
  const { reason } = schemas.Message.properties.suppression.properties
  for (const value of [...schemas.MessageStatus.enum, ...reason.enum]) {
    matches(t, pages.get('/docs/messages'), containing(`<code>${value}</code>`))
  }
})
