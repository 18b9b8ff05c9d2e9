// Notices by mail: each Admin chooses which to receive, but security notices are always mailed to the other Admins.
import t, { type Test } from 'tap'
import { type Actor, OPERATOR } from '../../../backend/accounts/audit.ts'
import { changePaymentDetails } from '../../../backend/reminders/reminder-content.ts'
import { actorOf } from '../../../backend/sessions/login.ts'
import { addPasskey, removePasskey } from '../../../backend/sessions/passkeys.ts'
import { disableApp } from '../../../backend/sessions/second-factor.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { startEngine } from '../../fixtures/reminders/engine.ts'
import { createUserIn, logIn } from '../../fixtures/service/settings.ts'

const PATH = '/settings/notices'
const ADA = 'ada@acme.nl'
const BEN = 'ben@acme.nl'
const MIA = 'mia@acme.nl'
const BANK_DETAILS = {
  currency: 'EUR',
  account_holder: 'Acme B.V.',
  account_number: 'NL91ABNA0417164300',
}
const ALL_KINDS = [
  'api_key.expiring',
  'api_key.issued',
  'webhook_endpoint.disabled',
  'message.received',
]
const NEW_KEY = { name: 'ERP', scopes: ['debtors:read'] }

async function startWithUsers(t: Test) {
  const engine = await startEngine(t)
  const { backend, accountId } = engine.testAccount
  const adaRow = await createUserIn(backend, accountId, ADA, 'admin')
  const benRow = await createUserIn(backend, accountId, BEN, 'admin')
  await createUserIn(backend, accountId, MIA, 'member')
  const mailNotices = async () => {
    const before = engine.smtp.mails.length
    await engine.service.sendNotices()
    return engine.smtp.mails.slice(before)
  }
  return { engine, backend, accountId, adaRow, benRow, mailNotices, ada: await logIn(backend, ADA) }
}

const recipients = (mails: readonly { readonly to: readonly string[] }[]) =>
  mails.flatMap(({ to }) => to).sort()

t.test(
  'a change of the bank account is mailed to all other Admins, whatever they chose',
  async (t) => {
    const { engine, backend, accountId, mailNotices, ada } = await startWithUsers(t)
    const ben = await logIn(backend, BEN)
    t.equal((await ben.send('POST', PATH, { kinds: [] })).status, 200)
    t.equal((await ada.send('POST', '/settings/payment-details', BANK_DETAILS)).status, 200)
    const mails = await mailNotices()
    t.strictSame(recipients(mails), [BEN], 'the person who made the change and Members get no mail')
    t.equal(mails[0]?.mail.subject, 'The payment details for EUR were changed')
    matches(t, mails[0]?.mail.text, containing('ada@acme.nl changed the payment details for EUR'))
    matches(t, mails[0]?.mail.text, containing('to the bank account that ends in 4300.'))
    t.notMatch(mails[0]?.mail.text, /NL91ABNA/, 'the number is not repeated in mails')
    matches(t, mails[0]?.mail.text, /Admins cannot turn off this mail.*\/settings\/notices/s)
    t.equal((await ada.send('POST', '/settings/payment-details', BANK_DETAILS)).status, 200)
    t.strictSame(await mailNotices(), [], 'the same details change nothing')
    t.equal((await ben.send('POST', '/settings/payment-details/EUR/remove')).status, 204)
    const removed = await mailNotices()
    t.strictSame(recipients(removed), [ADA])
    matches(t, removed[0]?.mail.text, containing('ben@acme.nl removed the payment details for EUR'))
    const actionContext = { actor: OPERATOR, now: backend.now }
    await engine.testAccount.backend.database.transaction((tx) =>
      changePaymentDetails(
        tx,
        accountId,
        'eur',
        { payment_link: 'https://pay.acme.nl/' },
        actionContext,
      ),
    )
    const byOperator = await mailNotices()
    t.strictSame(recipients(byOperator), [ADA, BEN])
    matches(
      t,
      byOperator[0]?.mail.text,
      /the operator changed the payment details .*by a payment link/s,
    )
  },
)

t.test(
  'if a second factor is turned off, its owner and the other Admins are notified',
  async (t) => {
    const { backend, adaRow, benRow, mailNotices } = await startWithUsers(t)
    const turnOff = (actor: Actor) =>
      backend.database.transaction(async (tx) => {
        await tx
          .updateTable('users')
          .set({ totp_enabled_at: backend.now.toISOString() })
          .where('id', '=', adaRow.id)
          .execute()
        await disableApp(tx, adaRow.id, { actor, now: backend.now })
      })
    await turnOff({ type: 'user', id: adaRow.id, label: ADA, address: null })
    const mails = await mailNotices()
    t.strictSame(recipients(mails), [ADA, BEN])
    const textTo = (email: string) => mails.find(({ to }) => to.includes(email))?.mail.text
    matches(
      t,
      textTo(BEN),
      containing('ada@acme.nl turned off two-factor authentication for their own login'),
    )
    matches(t, textTo(ADA), containing('app was removed from the login of ada@acme.nl, on'))
    await turnOff(OPERATOR)
    t.strictSame(recipients(await mailNotices()), [ADA, BEN])
    const actionContext = { actor: OPERATOR, now: backend.now }
    await backend.database.transaction((tx) => disableApp(tx, benRow.id, actionContext))
    t.strictSame(await mailNotices(), [], 'there was no second factor')
  },
)

t.test(
  'the owner is notified when a passkey is added or removed; other Admins, only when the last one is removed',
  async (t) => {
    const { backend, adaRow, mailNotices } = await startWithUsers(t)
    const actionContext = { actor: actorOf(adaRow, undefined), now: backend.now }
    const passkeyColumns = { public_key: 'AA', sign_count: 0, transports: '[]' }
    const added = await backend.database.transaction(async (tx) => [
      await addPasskey(
        tx,
        adaRow.id,
        { ...passkeyColumns, credential_id: 'a', name: 'Phone' },
        actionContext,
      ),
      await addPasskey(
        tx,
        adaRow.id,
        { ...passkeyColumns, credential_id: 'b', name: 'Key' },
        actionContext,
      ),
    ])
    const mails = await mailNotices()
    t.strictSame(recipients(mails), [ADA, ADA])
    t.strictSame(mails.map(({ mail }) => mail.subject).sort(), [
      'The passkey Key was added to your login',
      'The passkey Phone was added to your login',
    ])
    const [first, second] = added.map(({ passkey }) => passkey.id)
    const remove = (id = '') =>
      backend.database.transaction((tx) => removePasskey(tx, adaRow.id, id, actionContext))
    await remove(first)
    t.strictSame(
      recipients(await mailNotices()),
      [ADA],
      'the other passkey still protects the login',
    )
    await remove(second)
    t.strictSame(recipients(await mailNotices()), [ADA, BEN])
  },
)

t.test('an Admin turns notices off and on again, which does not affect other Admins', async (t) => {
  const { engine, backend, mailNotices, ada } = await startWithUsers(t)
  const always = ['payment_details.changed', 'second_factor.removed']
  t.strictSame((await ada.get(PATH)).json, { object: 'notice_choices', kinds: ALL_KINDS, always })
  t.equal((await ada.send('POST', '/settings/api-keys', NEW_KEY)).status, 201)
  const issued = await mailNotices()
  t.strictSame(recipients(issued), [BEN])
  matches(t, issued[0]?.mail.text, containing('ada@acme.nl issued the key ERP'))
  matches(
    t,
    issued[0]?.mail.text,
    containing(
      'Choose which of these mails you receive: https://receivables.test/settings/notices',
    ),
  )
  const ben = await logIn(backend, BEN)
  const kinds = ALL_KINDS.filter((kind) => kind !== 'api_key.issued')
  matches(t, await ben.send('POST', PATH, { kinds }), { status: 200, json: { kinds } })
  t.equal((await ada.send('POST', '/settings/api-keys', { ...NEW_KEY, name: 'Two' })).status, 201)
  t.strictSame(await mailNotices(), [])
  matches(t, (await ada.get(PATH)).json, { kinds: ALL_KINDS })
  const form = (await ben.page(PATH)).text
  t.notMatch(form, /value="api_key\.issued"[^>]* checked/)
  matches(t, form, /value="api_key\.expiring"[^>]* checked/)
  t.equal((await ben.submit(PATH, { kinds: 'api_key.issued' })).status, 303)
  matches(
    t,
    (await ben.page(PATH)).text,
    containing('Saved. The choice applies from the next notice on.'),
  )
  t.equal((await ada.send('POST', '/settings/api-keys', { ...NEW_KEY, name: 'Three' })).status, 201)
  t.strictSame(recipients(await mailNotices()), [BEN])
  t.strictSame(await engine.service.auditActions('user.notices'), [
    'user.notices_changed',
    'user.notices_changed',
  ])
})

t.test('security notices cannot be turned off, and Members choose no notices', async (t) => {
  const { backend, ada } = await startWithUsers(t)
  for (const kinds of [['payment_details.changed'], ['user.invited'], ['x']]) {
    const { status, json } = await ada.send('POST', PATH, { kinds })
    t.equal(status, 422)
    matches(t, json['errors'], [{ pointer: '/kinds' }])
  }
  t.equal((await ada.submit(PATH, { csrf_token: 'x' })).status, 403)
  const mia = await logIn(backend, MIA)
  t.equal((await mia.submit(PATH, {})).status, 403)
  const page = await mia.page(PATH)
  matches(t, page.text, containing('You receive mail about your own login only.'))
  t.notMatch(page.text, /type="checkbox"/)
  matches(t, (await ada.get(PATH)).json, { kinds: ALL_KINDS })
})
