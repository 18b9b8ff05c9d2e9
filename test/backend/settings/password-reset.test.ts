// A person who forgot the password requests a link by mail, and sets a new password.
import t, { type Test } from 'tap'
import { openDatabase } from '../../../backend/database/open.ts'
import { createMailServices } from '../../../backend/mail/mail-services.ts'
import { sendNotices } from '../../../backend/mail/outbox.ts'
import { parseSmtpUrl } from '../../../backend/mail/smtp-url.ts'
import { handlePasswordResets } from '../../../backend/sessions/password-reset.ts'
import { createMailedCodes } from '../../../backend/users/mailed-codes.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { startSmtpServer } from '../../fixtures/servers/smtp.ts'
import { BASE_URL } from '../../fixtures/service/backend.ts'
import { SILENT } from '../../fixtures/service/database.ts'
import { newDatabaseUrl } from '../../fixtures/service/database-url.ts'
import {
  ADMIN,
  cookieOf,
  FORM,
  JSON_ONLY,
  logIn,
  MEMBER,
  PASSWORD,
  startSettings,
} from '../../fixtures/service/settings.ts'

const CODE_KEY = Buffer.alloc(32, 5)
const NEW_PASSWORD = 'a walk along the canal'
const REACHABLE_EMAIL = 'ada@acme-shop.nl'
const MINUTE_MS = 60_000
const codes = createMailedCodes([CODE_KEY])

async function start(t: Test, options: { isRehearsal?: true; hasServer?: false } = {}) {
  let clock = () => new Date()
  const smtp = await startSmtpServer(t)
  const database = await openDatabase({
    url: await newDatabaseUrl(t),
    log: SILENT,
    openedBy: 'backend',
  })
  const mailServices = createMailServices({
    server: options.hasServer === false ? undefined : parseSmtpUrl(smtp.url),
    isRehearsal: options.isRehearsal ?? false,
    mailFrom: { name: '', address: 'receivables@acme.example' },
    directory: t.testdirName,
    inboundSecrets: undefined,
    baseUrl: BASE_URL,
    unsubscribeLinkKeys: [CODE_KEY],
    mailedCodeKeys: [CODE_KEY],
    database,
    clock: () => clock(),
    log: SILENT,
  })
  t.teardown(() => mailServices.close())
  const settings = await startSettings(t, { database, mailServices })
  const { backend } = settings
  clock = () => backend.now
  const request = (email: string) =>
    backend.request('POST', '/settings/password-reset', { headers: JSON_ONLY, body: { email } })
  const reset = (code: string, password = NEW_PASSWORD) =>
    backend.request('POST', '/settings/new-password', {
      headers: JSON_ONLY,
      body: { code, password },
    })
  /** Handles the waiting requests for links. Resolves with the codes of all links, the newest last. */
  async function handleRequests() {
    await handlePasswordResets(backend.database, backend.now)
    const notices = await backend.database.read
      .selectFrom('notices')
      .selectAll()
      .where('kind', '=', 'user.password_reset')
      .orderBy('id')
      .execute()
    return notices.map((notice) => codes.codeOf(notice.subject_id))
  }
  async function sendMails() {
    await sendNotices({
      ...mailServices,
      database,
      baseUrl: BASE_URL,
      clock: () => backend.now,
      log: SILENT,
    })
    return smtp.mails.map(({ mail }) => String(mail.text))
  }
  return { ...settings, request, reset, handleRequests, sendMails }
}

// Regression: the mail was tried again and again, and never sent.
t.test('a link is mailed even if the time zone of the account is unknown', async (t) => {
  const { backend, account, createUser, request, handleRequests, sendMails } = await start(t)
  await createUser(account.id, REACHABLE_EMAIL, 'admin')
  await backend.database.transaction((tx) =>
    tx.updateTable('accounts').set({ timezone: 'Mars/Olympus' }).execute(),
  )
  await request(REACHABLE_EMAIL)
  await handleRequests()
  matches(t, await sendMails(), [/works once, until .* \(UTC\)\./])
})

t.test('a link sets a new password once, and ends every session', async (t) => {
  const { backend, account, createUser, request, reset, handleRequests, sendMails } = await start(t)
  // The addresses of the other users are at reserved domains, to which no mail is sent.
  await createUser(account.id, REACHABLE_EMAIL, 'admin')
  const ada = await logIn(backend, REACHABLE_EMAIL)
  t.equal((await request(` ${REACHABLE_EMAIL.toUpperCase()} `)).status, 202)
  const [code = ''] = await handleRequests()
  const [mail = '', ...others] = await sendMails()
  t.strictSame(others, [])
  t.ok(mail.includes(`${BASE_URL}/settings/new-password#${code}`), 'the link is in the mail')
  t.equal((await ada.get('/settings/session')).status, 200, 'the request alone ends no session')
  const weak = await reset(code, 'password')
  matches(t, weak, { status: 422, json: { errors: [{ pointer: '/password' }] } })
  t.equal((await reset(code)).status, 200)
  t.equal((await ada.get('/settings/session')).status, 401)
  t.equal((await logIn(backend, REACHABLE_EMAIL)).response.status, 401, 'the old password')
  t.equal((await logIn(backend, REACHABLE_EMAIL, NEW_PASSWORD)).response.status, 200)
  matches(t, await reset(code), { status: 422, json: { code: 'invalid_password_reset' } })
  const audit = await backend.database.read.selectFrom('audit_log').select('action').execute()
  t.equal(audit.filter(({ action }) => action === 'user.password_reset').length, 1)
  const reported = await backend.database.read
    .selectFrom('notices')
    .select('detail')
    .where('kind', '=', 'user.password_changed')
    .execute()
  t.strictSame(reported, [{ detail: JSON.stringify({ email: REACHABLE_EMAIL }) }])
})

t.test('the response is the same whether or not the user exists', async (t) => {
  const { backend, member, request, handleRequests, createUser, account } = await start(t)
  await createUser(account.id, 'gone@acme.example', 'member')
  await backend.database.transaction((tx) =>
    tx
      .updateTable('users')
      .set({ status: 'deactivated' })
      .where('email', '=', 'gone@acme.example')
      .execute(),
  )
  const seen = []
  for (const email of [MEMBER, 'nobody@acme.example', 'gone@acme.example']) {
    const { status, text, headers } = await request(email)
    seen.push({ status, text, headers: [...headers.keys()].sort() })
  }
  t.strictSame(seen[1], seen[0])
  t.strictSame(seen[2], seen[0])
  const rows = await backend.database.read.selectFrom('password_resets').selectAll().execute()
  t.strictSame(
    rows.map(({ user_id, handled_at }) => [user_id, handled_at]),
    [
      [null, null],
      [null, null],
      [null, null],
    ],
    'the request itself does not look up the user',
  )
  t.equal((await handleRequests()).length, 1)
  const kept = await backend.database.read.selectFrom('password_resets').selectAll().execute()
  t.strictSame(
    kept.map(({ user_id }) => user_id),
    [member.id],
    'other addresses are deleted',
  )
})

t.test(
  'a user whose address has a Unicode host gets a link, even if an earlier version stored the address',
  async (t) => {
    const { backend, account, createUser, request, handleRequests } = await start(t)
    await createUser(account.id, 'new@münchen.example', 'member')
    const { id } = await createUser(account.id, 'old@münchen.example', 'member')
    // Earlier versions stored addresses as they were entered.
    await backend.database.transaction((tx) =>
      tx.updateTable('users').set({ email: 'old@münchen.example' }).where('id', '=', id).execute(),
    )
    t.equal((await request('new@MÜNCHEN.example')).status, 202)
    t.equal((await handleRequests()).length, 1)
    t.equal((await request('old@MÜNCHEN.example')).status, 202)
    t.equal((await handleRequests()).length, 2)
  },
)

/** Requests a link as a browser does. Resolves with the text of the next page, without the address. */
async function requestAsForm(
  { backend }: Pick<Awaited<ReturnType<typeof start>>, 'backend'>,
  email: string,
) {
  const form = await backend.request('GET', '/settings/password-reset', {
    headers: { accept: 'text/html' },
  })
  const csrf = /name="csrf_token" value="([\w-]+)"/.exec(form.text)?.[1] ?? ''
  const { text } = await backend.request('POST', '/settings/password-reset', {
    headers: { ...FORM, cookie: cookieOf(form, 'login') },
    body: new URLSearchParams({ csrf_token: csrf, email }).toString(),
  })
  return text.replaceAll(email, 'ADDRESS')
}

t.test(
  'the page promises a mail only if one can be sent, and does not reveal who is a user',
  async (t) => {
    const cases = [
      [{}, 'nobody@acme-shop.nl', 'we mail a link'],
      [{}, 'nobody@acme.example', 'reserved for examples'],
      [{ hasServer: false }, 'nobody@acme-shop.nl', 'writes its mail to files'],
    ] as const
    for (const [options, unknown, words] of cases) {
      const started = await start(t, options)
      const known = unknown.replace('nobody', 'eva')
      await started.createUser(started.account.id, known, 'member')
      const page = await requestAsForm(started, known)
      t.ok(page.includes(words), words)
      t.equal(await requestAsForm(started, unknown), page)
    }
    const { backend } = await start(t, { isRehearsal: true })
    const { text } = await backend.request('GET', '/settings/password-reset', {
      headers: { accept: 'text/html' },
    })
    t.ok(text.includes('does not send e-mail'))
    t.notOk(text.includes('<form'))
  },
)

t.test('a link expires after 30 minutes, or with the next change of the password', async (t) => {
  const { backend, request, reset, handleRequests } = await start(t)
  const startMs = backend.now.getTime()
  await request(ADMIN)
  await request(ADMIN)
  const [first = '', second = ''] = await handleRequests()
  backend.now = new Date(startMs + 30 * MINUTE_MS)
  t.equal((await reset(first)).json['code'], 'invalid_password_reset')
  backend.now = new Date(startMs + 30 * MINUTE_MS - 1)
  t.equal((await reset(first)).status, 200)
  t.equal((await reset(second)).json['code'], 'invalid_password_reset')
})

t.test('only a hash of the code is stored, and made-up codes are rejected', async (t) => {
  const { backend, request, reset, handleRequests } = await start(t)
  await request(ADMIN)
  const [code = ''] = await handleRequests()
  for (const table of ['password_resets', 'notices', 'audit_log', 'mail_outbox'] as const) {
    const rows = await backend.database.read.selectFrom(table).selectAll().execute()
    t.notOk(JSON.stringify(rows).includes(code), table)
  }
  for (const wrong of ['', 'A'.repeat(43), code.slice(1), codes.codeOf('pwr_1')]) {
    t.equal((await reset(wrong)).json['code'], 'invalid_password_reset')
  }
})

t.test(
  'requests are limited per e-mail address, known or unknown, and do not block logins',
  async (t) => {
    const { backend, request } = await start(t)
    for (const email of [ADMIN, 'nobody@acme.example']) {
      const statuses: number[] = []
      for (let count = 0; count < 6; count++) statuses.push((await request(email)).status)
      t.strictSame(statuses, [202, 202, 202, 202, 202, 429], email)
    }
    t.equal((await logIn(backend, ADMIN)).response.status, 200)
  },
)

t.test(
  'a user has at most three valid links, and gets another one after they expire',
  async (t) => {
    // Regression: anyone could have ten links mailed to a user in 15 minutes.
    const { backend, request, reset, handleRequests } = await start(t)
    for (let count = 0; count < 5; count++) t.equal((await request(ADMIN)).status, 202)
    const mailed = await handleRequests()
    t.equal(mailed.length, 3)
    const rows = await backend.database.read.selectFrom('password_resets').select('id').execute()
    t.equal(rows.length, 3, 'the other requests are deleted')
    backend.now = new Date(backend.now.getTime() + 30 * MINUTE_MS)
    await request(ADMIN)
    const [code = '', ...others] = (await handleRequests()).slice(3)
    t.strictSame(others, [])
    t.equal((await reset(code)).status, 200)
  },
)

t.test('the forms are shown, and are rejected without their CSRF token', async (t) => {
  const { backend } = await start(t)
  for (const path of ['/settings/password-reset', '/settings/new-password']) {
    const page = await backend.request('GET', path, { headers: { accept: 'text/html' } })
    t.equal(page.status, 200, path)
    const body = 'email=ada%40acme.example'
    const forged = await backend.request('POST', path, { headers: FORM, body })
    t.ok([400, 403].includes(forged.status), `${path} without a token: ${forged.status}`)
    const headers = { ...JSON_ONLY, origin: 'https://evil.example' }
    t.equal((await backend.request('POST', path, { headers, body: {} })).status, 403)
  }
})

t.test(
  'a change of the password invalidates mailed links, and is mailed to the user',
  async (t) => {
    // Regression: a link that was mailed before still set another password, and the user was not notified of the
    // change.
    const { backend, account, createUser, request, reset, handleRequests, sendMails } =
      await start(t)
    await createUser(account.id, REACHABLE_EMAIL, 'admin')
    await request(REACHABLE_EMAIL)
    const [code = ''] = await handleRequests()
    const ada = await logIn(backend, REACHABLE_EMAIL)
    const body = { current_password: PASSWORD, new_password: NEW_PASSWORD }
    t.equal((await ada.send('POST', '/settings/password', body)).status, 200)
    matches(t, await reset(code), { status: 422, json: { code: 'invalid_password_reset' } })
    const mails = await sendMails()
    matches(
      t,
      mails.at(-1),
      containing(`The password of ${REACHABLE_EMAIL} was changed in Settings`),
    )
  },
)
