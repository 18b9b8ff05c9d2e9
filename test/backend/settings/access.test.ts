// Every action of Settings, including future actions, must be rejected without a session, without a CSRF token, and for
// another account. Members may perform only actions on their own login.
import t from 'tap'
import { type SettingsOptions, settingsRoutes } from '../../../backend/settings/routes.ts'
import { startMoneySettings } from '../../fixtures/accounts/money-settings.ts'
import { BASE_URL } from '../../fixtures/service/backend.ts'
import { SILENT } from '../../fixtures/service/database.ts'
import { createUserIn, logIn, MEMBER } from '../../fixtures/service/settings.ts'

interface Route {
  readonly method: string
  readonly path: string
}

// Only methods and paths are read, so the routes need no services.
const options: unknown = { baseUrl: BASE_URL, log: SILENT, webhooks: {} }
const ROUTES: readonly Route[] = settingsRoutes(options as SettingsOptions)
  .flatMap(({ method, path }) => [method].flat().map((name) => ({ method: String(name), path })))
  .filter(({ method, path }) => method !== '*' && !path.startsWith('/settings/assets/'))
const ACTIONS = ROUTES.filter(({ method }) => method !== 'GET')

/** Actions that need no session. Other files test them. */
const LOGIN_PATHS = [
  '/settings/login',
  '/settings/login/code',
  '/settings/login/code/passkey',
  '/settings/login/passkey',
  '/settings/login/passkey/challenge',
  '/settings/login/code/passkey/challenge',
  '/settings/invitation',
  '/settings/password-reset',
  '/settings/new-password',
]
const SESSION_ACTIONS = ACTIONS.filter(({ path }) => !LOGIN_PATHS.includes(path))

/** Actions on the user's own login, which Members may perform. */
const OWN_LOGIN_PATHS = [
  '/settings/confirm',
  '/settings/logout',
  '/settings/logout-everywhere',
  '/settings/passkeys',
  '/settings/passkeys/challenge',
  '/settings/passkeys/{id}/remove',
  '/settings/passkeys/{id}/rename',
  '/settings/password',
  '/settings/sessions/{id}/end',
  '/settings/two-factor/disable',
  '/settings/two-factor/enable',
  '/settings/two-factor/recovery-codes',
  '/settings/two-factor/setup',
]

const withId = (path: string, id: string) => path.replace('{id}', id)

t.test('an action needs a session, its CSRF token, and a request from our own pages', async (t) => {
  const { backend, ada } = await startMoneySettings(t)
  for (const { method, path } of SESSION_ACTIONS) {
    const name = `${method} ${path}`
    const send = (headers: Record<string, string>) =>
      backend.request(method, withId(path, 'x'), {
        headers: { accept: 'application/json', ...headers },
        body: {},
      })
    t.equal((await send({})).json['code'], 'not_logged_in', name)
    t.equal((await send({ cookie: ada.cookie })).json['code'], 'invalid_csrf_token', name)
    const token = { cookie: ada.cookie, 'x-csrf-token': ada.csrf }
    const foreign = { ...token, origin: 'https://evil.example' }
    t.equal((await send(foreign)).status, 403, name)
    t.equal((await send({ ...token, 'sec-fetch-site': 'cross-site' })).status, 403, name)
  }
})

t.test('Members can change nothing but their own login', async (t) => {
  const { backend } = await startMoneySettings(t)
  const allowed: string[] = []
  for (const { method, path } of SESSION_ACTIONS) {
    const mia = await logIn(backend, MEMBER)
    const { status, json } = await mia.send(method, withId(path, 'x'), {})
    if (status !== 403 || json['code'] !== 'admin_required') allowed.push(path)
  }
  t.strictSame(allowed.sort(), OWN_LOGIN_PATHS)
})

t.test(
  'requests for records of another account and for unknown ids get the same response',
  async (t) => {
    const settings = await startMoneySettings(t)
    const { backend, ada, account, debtor } = settings
    const invoice = await settings.createInvoice()
    const payment = await settings.payOnAccount(1000)
    const key = await backend.issueKey(account.id)
    const endpoint = await ada.send('POST', '/settings/webhook-endpoints', {
      ...{ url: 'https://erp.acme.nl/hook', events: ['*'] },
    })
    await settings.payOnAccount(1000)
    const deliveries = await ada.get('/settings/webhook-deliveries')
    const invitation = await ada.send('POST', '/settings/people', {
      ...{ email: 'new@acme.example', role: 'member' },
    })
    const file =
      'Invoice number,Customer ID,Invoice date,Due date,Amount\n1,C-1,2026-10-01,2026-10-31,1.00'
    const imported = await ada.send('POST', '/settings/import', {
      ...{ date_format: 'YYYY-MM-DD', currency: 'EUR', step: 'record', file_name: 'a.csv', file },
    })
    const sessions = await ada.get('/settings/sessions')
    const people = await ada.get('/settings/people')
    const idOf = ({ json }: { json: Readonly<Record<string, unknown>> }) =>
      (json['data'] as { id: string }[])[0]?.id
    const ids: readonly (readonly [section: string, id: unknown])[] = [
      ['customers', debtor.id],
      ['invoices', invoice.id],
      ['payments', payment.id],
      ['api-keys', key.row.id],
      ['webhook-endpoints', endpoint.json['id']],
      ['webhook-deliveries', idOf(deliveries)],
      ['invitations', invitation.json['id']],
      ['imports', imported.json['import_id']],
      ['sessions', idOf(sessions)],
      ['people', idOf(people)],
    ]
    const other = await backend.createAccount()
    await createUserIn(backend, other.id, 'eve@other.example', 'admin')
    const eve = await logIn(backend, 'eve@other.example')
    const before = await settings.audit()
    for (const [section, id] of ids) {
      t.type(id, 'string', section)
      const routes = ROUTES.filter(({ path }) => path.startsWith(`/settings/${section}/{id}`))
      t.ok(routes.length > 0, section)
      for (const { method, path } of routes) {
        const responses = []
        // The second id has the same form, but does not exist.
        for (const requestedId of [String(id), `${String(id).slice(0, -4)}0000`]) {
          const { status, text } = await (method === 'GET'
            ? eve.page(withId(path, requestedId))
            : eve.send(method, withId(path, requestedId), {}))
          const masked = text.replaceAll(requestedId, 'ID').replace(/Request <code[^>]*>[^<]*/, '')
          responses.push({ status, text: masked.replace(/"request_id":"[^"]*"/, '') })
        }
        const [foreign, missing] = responses
        t.strictSame(foreign, missing, `${method} ${path}`)
        t.ok(Number(foreign?.status) >= 300, `${method} ${path}: ${foreign?.status}`)
      }
    }
    t.strictSame(await settings.audit(), before, 'no action was performed')
  },
)
