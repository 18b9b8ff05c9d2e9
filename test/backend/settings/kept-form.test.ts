// A form that is sent after its session has ended is shown again after the next login, with the entered values.
import t, { type Test } from 'tap'
import { setSecondFactorPolicy } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { totpCode, totpStep } from '../../../backend/users/totp.ts'
import { formOf, startMoneySettings, submit } from '../../fixtures/accounts/money-settings.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import {
  ADMIN,
  cookieOf,
  FORM,
  JSON_ONLY,
  logIn,
  MEMBER,
  PASSWORD,
} from '../../fixtures/service/settings.ts'

const HOUR_MS = 3_600_000

async function startWithEndingSession(t: Test) {
  const settings = await startMoneySettings(t)
  const { backend, ada, debtor } = settings
  const path = `/settings/customers/${debtor.id}`
  return {
    ...settings,
    path,
    endSessions() {
      backend.now = new Date(backend.now.getTime() + HOUR_MS)
    },
    /** Opens the form, and sends it with the given values after Ada's session has ended. */
    async sendLater(form: string, action: string, given: Record<string, string>) {
      const page = await ada.page(form)
      backend.now = new Date(backend.now.getTime() + HOUR_MS)
      return submit(settings, ada, action, formOf(page, action, given))
    },
    readName: async () => (await settings.read(`debtors/${debtor.id}`))['name'],
  }
}

t.test(
  'a form that is sent after its session has ended is kept until it is sent again',
  async (t) => {
    // Regression: the response was only an error page, and everything that had been entered was lost.
    const settings = await startWithEndingSession(t)
    const { backend, path, sendLater, readName } = settings
    const name = 'Globex "2" <b>'
    const ended = await sendLater(`${path}/edit`, path, { name, phone: '+31205550142' })
    matches(t, ended, { status: 401, text: containing('Your session has ended') })
    t.equal(ended.headers.get('www-authenticate'), 'Cookie realm="settings"')
    t.notOk(ended.text.includes('csrf_token'))
    const kept = formOf(ended, path)
    t.equal(new Map(kept).get('name'), name)

    const early = await submit(settings, { ...settings.ada, csrf: '' }, path, kept)
    t.equal(early.status, 401, 'there is still no session')
    t.strictSame(formOf(early, path), kept)

    const again = await logIn(backend, ADMIN)
    const shown = await submit(settings, { ...again, csrf: '' }, path, kept)
    matches(t, shown, {
      status: 422,
      text: containing('Check what you entered, and send it again.'),
    })
    t.equal(await readName(), 'Globex', 'nothing is changed yet')
    const fields = formOf(shown, path)
    t.equal(new Map(fields).get('name'), name)
    t.equal((await submit(settings, again, path, fields)).status, 303)
    matches(t, await settings.read(`debtors/${settings.debtor.id}`), {
      name,
      phone: '+31205550142',
    })
  },
)

t.test('unchanged lists of a kept form stay as they are', async (t) => {
  const settings = await startWithEndingSession(t)
  const { backend, ada } = settings
  const events = ['invoice.paid', 'debtor.created']
  const url = 'https://hooks.example/in'
  const { json } = await ada.send('POST', '/settings/webhook-endpoints', { url, events })
  const path = `/settings/webhook-endpoints/${json['id']}`
  settings.endSessions()
  const shown = JSON.stringify({ url, description: '', events })
  const sent: [string, string][] = [
    ...events.map((event): [string, string] => ['events', event]),
    ...Object.entries({ url, description: 'ERP', shown }),
  ]
  const formUser: [string, string] = ['form_user', settings.admin.id]
  const kept = formOf(await submit(settings, ada, path, [formUser, ...sent]), path)
  t.strictSame(kept, [formUser, ...sent])
  const again = await logIn(backend, ADMIN)
  const { text } = await submit(settings, { ...again, csrf: '' }, path, kept)
  matches(t, text, containing('value="ERP"'))
  for (const event of events) matches(t, text, containing(`value="${event}" checked`))
})

t.test(
  'a payment that is entered when the session has ended is shown again, and not recorded',
  async (t) => {
    const settings = await startWithEndingSession(t)
    const { backend, ada, debtor } = settings
    const form = `/settings/payments/new?debtor_id=${debtor.id}`
    const page = await ada.page(form)
    settings.endSessions()
    const action = '/settings/payments/preview'
    const given = { amount: '12.50', currency: 'EUR', reference: 'Bank 7' }
    const kept = formOf(await submit(settings, ada, action, formOf(page, action, given)), action)
    const again = await logIn(backend, ADMIN)
    const shown = await submit(settings, { ...again, csrf: '' }, action, kept)
    matches(t, shown, { status: 422, text: containing('value="Bank 7"') })
    t.strictSame(await settings.payments(), [])
  },
)

t.test('a form that is sent again after its session has ended has its effect once', async (t) => {
  const settings = await startWithEndingSession(t)
  const { backend, ada, debtor } = settings
  const start = await ada.page(`/settings/payments/new?debtor_id=${debtor.id}`)
  const preview = '/settings/payments/preview'
  const entered = formOf(start, preview, {
    amount: '12.50',
    currency: 'EUR',
    method: 'bank_transfer',
  })
  const action = '/settings/payments'
  const confirmed = formOf(await submit(settings, ada, preview, entered), action)
  const recorded = await submit(settings, ada, action, confirmed)
  t.equal(recorded.status, 303)
  const customers = '/settings/customers'
  const customer = formOf(await ada.page(`${customers}/new`), customers, { name: 'Initech' })
  const created = await submit(settings, ada, customers, customer)
  t.equal(created.status, 303)
  settings.endSessions()

  const again = await logIn(backend, ADMIN)
  const shown = await submit(settings, { ...again, csrf: ada.csrf }, action, confirmed)
  t.equal(shown.status, 422)
  const previewed = await submit(
    settings,
    again,
    preview,
    formOf(shown, preview, { method: 'bank_transfer' }),
  )
  const repeated = await submit(settings, again, action, formOf(previewed, action))
  t.equal(repeated.headers.get('location'), recorded.headers.get('location'))
  t.equal((await settings.payments()).length, 1)

  const customerAgain = await submit(settings, { ...again, csrf: ada.csrf }, customers, customer)
  t.equal(customerAgain.status, 422)
  const sent = await submit(settings, again, customers, formOf(customerAgain, customers))
  t.equal(sent.headers.get('location'), created.headers.get('location'))
})

t.test('a rejected pause keeps its end', async (t) => {
  // Regression: the end was lost if the reason was missing.
  const { path, ada } = await startWithEndingSession(t)
  const missing = await ada.submit(`${path}/pause`, { reason: '', until: '2027-01-15' })
  matches(t, [missing.status, missing.text], [422, containing('value="2027-01-15"')])
})

t.test('an action that is no longer offered shows why it was rejected', async (t) => {
  // Regression: the page showed no message, because it has no form for a reason any more.
  const { ada, createInvoice } = await startWithEndingSession(t)
  const path = `/settings/invoices/${(await createInvoice()).id}`
  t.equal((await ada.submit(`${path}/dispute`, { reason: 'Wrong price' })).status, 303)
  const again = await ada.submit(`${path}/dispute`, { reason: '' })
  matches(t, [again.status, again.text], [422, containing('role="alert"')])
  t.equal((await ada.submit('/settings/kill-switch/on', { reason: 'Strike' })).status, 303)
  const stopped = await ada.submit('/settings/kill-switch/on', { reason: '' })
  matches(t, [stopped.status, stopped.text], [422, containing('role="alert"')])
})

t.test('a form is kept until the second factor is entered', async (t) => {
  const settings = await startWithEndingSession(t)
  const { backend, ada, path, sendLater } = settings
  const { json } = await ada.send('POST', '/settings/two-factor/setup')
  const codeNow = () => totpCode(String(json['secret']), totpStep(backend.now))
  await ada.send('POST', '/settings/two-factor/enable', { code: codeNow() })
  const kept = formOf(await sendLater(`${path}/edit`, path, { name: 'Globex 2' }), path)
  const credentials = { email: ADMIN, password: PASSWORD }
  const first = await backend.request('POST', '/settings/login', {
    headers: JSON_ONLY,
    body: credentials,
  })
  const pending = { ...ada, cookie: cookieOf(first), csrf: '' }
  const early = await submit(settings, pending, path, kept)
  t.equal(early.status, 401)
  t.strictSame(formOf(early, path), kept)
  const second = await backend.request('POST', '/settings/login/code', {
    headers: { ...JSON_ONLY, cookie: pending.cookie },
    body: { code: codeNow() },
  })
  const session = { ...ada, cookie: cookieOf(second), csrf: '' }
  const shown = await submit(settings, session, path, kept)
  matches(t, shown, { status: 422, text: containing('value="Globex 2"') })
})

t.test('a form is kept until the second factor that the account requires is set up', async (t) => {
  // Regression: if the policy was switched on after the form was opened, everything that had been entered was lost.
  const settings = await startWithEndingSession(t)
  const { backend, ada, path, createAdmin, readName, account, admin } = settings
  const ben = await createAdmin('ben@acme.example')
  const session = await logIn(backend, ben.email)
  const form = formOf(await session.page(`${path}/edit`), path, { name: 'Globex 2' })
  const actionContext = { actor: OPERATOR, now: backend.now }
  await backend.database.transaction((tx) =>
    setSecondFactorPolicy(tx, account.id, true, actionContext),
  )
  const early = await submit(settings, session, path, form)
  matches(t, early, { status: 403, text: containing('Set up two-factor authentication') })
  t.notOk(early.text.includes('csrf_token'))
  const kept = formOf(early, path)
  t.strictSame(formOf(await submit(settings, session, path, kept), path), kept)

  const { json } = await session.send('POST', '/settings/two-factor/setup')
  const code = totpCode(String(json['secret']), totpStep(backend.now))
  await session.send('POST', '/settings/two-factor/enable', { code })
  const shown = await submit(settings, { ...session, csrf: '' }, path, kept)
  matches(t, shown, { status: 422, text: containing('or two-factor authentication has changed') })
  t.equal(await readName(), 'Globex')
  t.equal((await submit(settings, session, path, formOf(shown, path))).status, 303)
  t.equal(await readName(), 'Globex 2')

  const others = form.map(([name, value]): [string, string] => [
    name,
    name === 'form_user' ? ben.id : value,
  ])
  const other = await submit(settings, ada, path, others)
  matches(t, other, { status: 403, text: containing('Nothing was changed.') })
  t.notOk(other.text.includes('Globex 2'), 'a form of another user is not shown')
  const button = await submit(settings, ada, `${path}/archive`, [['form_user', admin.id]])
  matches(t, button, { status: 403, text: containing('href="/settings/two-factor">Set it up') })
})

t.test('a button without fields is not shown again, because nothing was entered', async (t) => {
  const settings = await startWithEndingSession(t)
  const { backend, path, ada, admin } = settings
  const sent: [string, string][] = [['form_user', admin.id]]
  settings.endSessions()
  const ended = await submit(settings, ada, `${path}/archive`, sent)
  t.equal(ended.status, 401)
  t.notOk(ended.text.includes('Continue'))
  const again = await logIn(backend, ADMIN)
  const outdated = await submit(settings, { ...again, csrf: ada.csrf }, `${path}/archive`, sent)
  matches(t, [outdated.status, outdated.text], [403, containing('The page is out of date.')])
})

t.test('a form with a secret is not kept', async (t) => {
  const settings = await startWithEndingSession(t)
  settings.endSessions()
  const sent: [string, string][] = [
    ['current_password', 'correct horse battery'],
    ['new_password', 'another good one'],
  ]
  const { status, text } = await submit(settings, settings.ada, '/settings/password', sent)
  matches(t, [status, text], [401, containing('Your session has ended')])
  t.notOk(text.includes('correct horse') || text.includes('another good'))
})

t.test('a form is never shown to another user who logs in in the same browser', async (t) => {
  const settings = await startWithEndingSession(t)
  const { backend, path, sendLater } = settings
  const kept = formOf(await sendLater(`${path}/edit`, path, { name: 'Globex 2' }), path)
  const other = await backend.createAccount()
  await settings.createUser(other.id, 'zoe@other.example', 'admin')
  await settings.createAdmin('bob@acme.example')
  for (const [email, text] of [
    [MEMBER, 'Only an Admin can change customers.'],
    ['bob@acme.example', 'You are logged in as bob@acme.example.'],
    ['zoe@other.example', 'You are logged in as zoe@other.example.'],
  ] as const) {
    const user = await logIn(backend, email)
    for (const csrf of ['', settings.ada.csrf]) {
      const response = await submit(settings, { ...user, csrf }, path, kept)
      matches(t, response, { status: 403, text: containing(text) })
      t.notOk(response.text.includes('Globex 2'), email)
    }
  }
})

t.test('a form is shown again after the password was entered in another tab', async (t) => {
  // Regression: the session's new token made every open form invalid, and what was entered was lost.
  const settings = await startWithEndingSession(t)
  const { ada, path, readName } = settings
  const form = formOf(await ada.page(`${path}/edit`), path, { name: 'Globex 2' })
  const confirmed = await ada.submit('/settings/confirm', { password: PASSWORD, next: '/settings' })
  const cookie = cookieOf(confirmed)
  const shown = await submit(settings, { ...ada, cookie }, path, form)
  matches(t, shown, { status: 422, text: containing('value="Globex 2"') })
  t.equal(await readName(), 'Globex')
  const [, csrf = ''] = /name="csrf_token" value="([^"]+)"/.exec(shown.text) ?? []
  const fields = formOf(shown, path)
  t.equal((await submit(settings, { ...ada, cookie, csrf }, path, fields)).status, 303)
  t.equal(await readName(), 'Globex 2')
})

t.test('a form that was opened before a change of the role says so', async (t) => {
  // Regression: the page said only that the person had logged in or entered the password again, which they had not.
  const settings = await startWithEndingSession(t)
  const { backend, ada, createAdmin } = settings
  const ben = await createAdmin('ben@acme.example')
  const role = `/settings/people/${ben.id}/role`
  await ada.send('POST', role, { role: 'member' })
  const session = await logIn(backend, ben.email)
  await ada.send('POST', role, { role: 'admin' })
  const cookie = cookieOf(await session.page('/settings'))
  const form: [string, string][] = [
    ['form_user', ben.id],
    ['reason', 'Strike'],
  ]
  const shown = await submit(settings, { ...session, cookie }, '/settings/kill-switch/on', form)
  matches(t, [shown.status, shown.text], [422, containing('or your password, role or')])
  matches(t, shown.text, containing('value="Strike"'))
})

t.test('a kept form that needs a recent password keeps no password', async (t) => {
  const settings = await startWithEndingSession(t)
  const { backend, ada } = settings
  const action = '/settings/api-keys'
  const page = await ada.page(`${action}/new`)
  const given = { name: 'ERP', scopes: 'debtors:read', password: PASSWORD }
  const fields = formOf(page, action, given)
  settings.endSessions()
  const ended = await submit(settings, ada, action, fields)
  t.equal(ended.status, 401)
  t.notOk(ended.text.includes(PASSWORD))
  const again = await logIn(backend, ADMIN)
  const shown = await submit(settings, { ...again, csrf: '' }, action, formOf(ended, action))
  matches(t, shown, { status: 422, text: containing('value="ERP"') })
  const issued = await submit(
    settings,
    again,
    action,
    formOf(shown, action, { scopes: 'debtors:read' }),
  )
  t.equal(issued.status, 201)
})

t.test(
  'requests of scripts and of other sites, and malformed forms, are rejected and not kept',
  async (t) => {
    const { backend, admin, path, ada, endSessions, readName } = await startWithEndingSession(t)
    const send = (headers: Record<string, string>, body: string) =>
      backend.request('POST', path, { headers: { ...FORM, ...headers }, body })
    matches(t, await send({ cookie: ada.cookie, 'sec-fetch-site': 'cross-site' }, 'name=x'), {
      status: 403,
      text: containing('another site'),
    })
    matches(t, await ada.send('PUT', path, { name: 'x' }), { status: 200 })
    endSessions()
    const user = `form_user=${admin.id}`
    for (const form of ['name=%zz', 'name=x&unknown=y', 'name=x&name=y', 'name=x']) {
      const body = form === 'name=x' ? form : `${user}&${form}`
      const { status, text } = await send({}, body)
      matches(t, [status, text], [401, containing('Your session has ended')], body)
      t.notOk(text.includes('Continue'), body)
    }
    matches(t, await ada.send('PUT', path, { name: 'y' }), {
      status: 401,
      json: { code: 'not_logged_in' },
    })
    t.equal(await readName(), 'x')
  },
)
