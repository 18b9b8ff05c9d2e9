// The unsubscribe link of every reminder: GET changes nothing, POST stops further reminders.
import { createHash } from 'node:crypto'
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { setSenderName } from '../../../backend/accounts/sender.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { startMailService } from '../../fixtures/reminders/mail-service.ts'

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
const ONE_CLICK = { headers: FORM, body: 'List-Unsubscribe=One-Click' }

t.test('GET changes nothing, because mail scanners open links', async (t) => {
  const { testAccount, request, unsubscribePathOf } = await startMailService(t)
  const debtor = await testAccount.createDebtor({ email: 'ap@jansen.nl', language: 'nl-BE' })
  const path = unsubscribePathOf('ap@jansen.nl')
  const page = await request('GET', path)
  matches(t, page, {
    status: 200,
    text: /<html lang="nl">[\s\S]*Herinneringen per e-mail stoppen\?/,
  })
  matches(t, page.text, /Acme Ltd[\s\S]*a•••@jansen\.nl/)
  t.notMatch(page.text, /ap@jansen/, 'the address is masked')
  const policy = page.headers.get('content-security-policy') ?? ''
  matches(t, policy, containing("default-src 'none'"))
  const [, style = ''] = /<style>(.*?)<\/style>/s.exec(page.text) ?? []
  matches(
    t,
    policy,
    containing(`style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`),
  )
  t.equal(page.headers.get('referrer-policy'), 'no-referrer')
  matches(t, page.headers.get('strict-transport-security'), /max-age/)
  t.equal((await request('HEAD', path)).status, 200)
  matches(t, await testAccount.read(`/api/v1/debtors/${debtor.id}`), {
    contactability: { email: 'ok' },
  })
})

t.test(
  'a one-click request of a mail program unsubscribes, without a cookie or a form token',
  async (t) => {
    const { testAccount, request, unsubscribePathOf, auditActions } = await startMailService(t)
    const first = await testAccount.createDebtor({ email: 'ap@jansen.nl', external_id: '1' })
    const second = await testAccount.createDebtor({ email: 'ap@jansen.nl', external_id: '2' })
    const path = unsubscribePathOf('ap@jansen.nl')
    const clicked = await request('POST', path, ONE_CLICK)
    matches(t, clicked, { status: 200, text: /Reminders are stopped/ })
    const multipart = 'multipart/form-data; boundary=x'
    const body =
      '--x\r\ncontent-disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--x--'
    const repeated = await request('POST', path, { headers: { 'content-type': multipart }, body })
    matches(t, repeated, { status: 200, text: /Reminders are stopped/ })
    matches(t, await request('GET', path), { text: /Reminders are stopped/ })
    for (const { id } of [first, second]) {
      matches(t, await testAccount.read(`/api/v1/debtors/${id}`), {
        contactability: { email: 'unsubscribed' },
        chasing: { status: 'active' },
      })
    }
    const later = await testAccount.createDebtor({ email: 'AP@jansen.nl', external_id: '3' })
    t.equal(later.contactability.email, 'unsubscribed', 'even for a debtor that is created later')
    const other = await testAccount.createDebtor({ email: 'info@jansen.nl' })
    t.equal(other.contactability.email, 'ok')
    t.strictSame(await auditActions('address.'), ['address.unsubscribed'])
  },
)

t.test('a recipient can resume reminders', async (t) => {
  const { testAccount, request, unsubscribePathOf } = await startMailService(t)
  const debtor = await testAccount.createDebtor({ email: 'ap@jansen.nl', language: 'de' })
  const path = unsubscribePathOf('ap@jansen.nl')
  await request('POST', path, ONE_CLICK)
  const resumed = await request('POST', path, { headers: FORM, body: 'wish=resume' })
  matches(t, resumed, { status: 200, text: /Sie erhalten wieder Erinnerungen/ })
  matches(t, await testAccount.read(`/api/v1/debtors/${debtor.id}`), {
    contactability: { email: 'ok' },
  })
  matches(t, await request('GET', path), { text: /abbestellen\?/ })
})

t.test('the page names the sender as the reminders do', async (t) => {
  // Regression: the page showed the name of the account, which recipients may not know.
  const { testAccount, request, unsubscribePathOf, accountId } = await startMailService(t)
  const { database, now } = testAccount.backend
  await database.transaction((tx) =>
    setSenderName(tx, accountId, 'Acme Billing', { actor: OPERATOR, now }),
  )
  const { text } = await request('GET', unsubscribePathOf('ap@jansen.nl'))
  matches(t, text, /Acme Billing will send no more payment reminders/)
})

t.test('a link is valid for one account and one address, and cannot be forged', async (t) => {
  const { request, unsubscribePathOf, accountId } = await startMailService(t)
  const path = unsubscribePathOf('ap@jansen.nl')
  const token = path.slice(path.lastIndexOf('/') + 1)
  t.notMatch(
    Buffer.from(token, 'base64url').toString('latin1'),
    /jansen|acct_/,
    'the token is encrypted',
  )
  t.equal(unsubscribePathOf('ap@jansen.nl'), path, 'always the same link')
  t.not(unsubscribePathOf('ap2@jansen.nl'), path)
  const forged = Buffer.from(`${accountId}\nap@jansen.nl`).toString('base64url')
  const changed = `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`
  for (const wrong of [forged, changed, token.slice(0, -4), `${token}A`, 'x', 'A'.repeat(5000)]) {
    const response = await request('POST', `/mail/unsubscribe/${wrong}`, ONE_CLICK)
    matches(t, response, { status: 404, text: /This link does not work/ }, wrong.slice(0, 20))
  }
  const german = { headers: { 'accept-language': 'tlh, fr;q=0.5, de-AT;q=0.9' } }
  matches(t, await request('GET', '/mail/unsubscribe/x', german), { text: /funktioniert nicht/ })
})

t.test('a link that a mail program has cut or extended leads to a page for people', async (t) => {
  // Regression: if the link was cut before its token, or a slash was added, the recipient got the JSON of an API error.
  const { request, unsubscribePathOf } = await startMailService(t)
  const path = unsubscribePathOf('ap@jansen.nl')
  const broken = { status: 404, text: /This link does not work/ }
  for (const wrong of ['/mail/unsubscribe', '/mail/unsubscribe/', `${path}/`, `${path}/x`]) {
    matches(t, await request('GET', wrong), broken, wrong)
    matches(t, await request('POST', wrong, ONE_CLICK), broken, wrong)
  }
  matches(t, await request('GET', path), { status: 200 })
  matches(t, await request('GET', '/mail/other'), { json: { code: 'route_not_found' } })
})

t.test('unsubscribing ignores the case of the address', async (t) => {
  const { testAccount, request, unsubscribePathOf } = await startMailService(t)
  const ids = []
  for (const email of ['Case.Person@jansen.nl', 'case.person@jansen.nl', 'CASE.person@jansen.nl']) {
    ids.push((await testAccount.createDebtor({ email })).id)
  }
  t.equal(
    (await request('POST', unsubscribePathOf('case.person@jansen.nl'), ONE_CLICK)).status,
    200,
  )
  for (const id of ids) {
    const { contactability } = await testAccount.read(`/api/v1/debtors/${id}`)
    t.strictSame(contactability, { email: 'unsubscribed' })
  }
})
