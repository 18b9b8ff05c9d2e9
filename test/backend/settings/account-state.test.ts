// The page whose URL is in the 423 response of a read-only account.
import t from 'tap'
import { setStatus } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import type { AccountStatus } from '../../../backend/database/tables.ts'
import { matches } from '../../fixtures/matches.ts'
import { BASE_URL } from '../../fixtures/service/backend.ts'
import { ADMIN, logIn, MEMBER, startSettings } from '../../fixtures/service/settings.ts'

const { backend, account } = await startSettings(t)
const key = await backend.issueKey(account.id)
const ada = await logIn(backend, ADMIN)
const mia = await logIn(backend, MEMBER)

const changeStatus = (status: AccountStatus) =>
  backend.database.transaction((tx) =>
    setStatus(tx, account.id, status, { actor: OPERATOR, now: backend.now }),
  )

const create = () => backend.call(key, 'POST', '/api/v1/debtors', { body: { name: 'Globex' } })

t.test('an Admin resumes a paused trial on the page that the 423 response names', async (t) => {
  await changeStatus('trial_paused')
  const { status, json } = await create()
  t.equal(status, 423)
  const path = String(json['resume_url']).slice(BASE_URL.length)
  const page = await ada.page(path)
  matches(t, page.text, /The trial of this account is paused/)
  matches(t, page.text, /Resume the trial/)
  matches(t, page.text, /The trial is paused\./, 'the banner also says that the trial is paused')
  const seen = await mia.page(path)
  matches(t, seen.text, /An Admin of your account can resume the trial/)
  t.notMatch(seen.text, /Resume the trial<\/button>/)
  t.equal((await mia.send('POST', `${path}/resume`)).status, 403)
  t.equal((await create()).status, 423)

  const resumed = await ada.submit(`${path}/resume`, {})
  t.strictSame([resumed.status, resumed.headers.get('location')], [303, path])
  t.equal((await create()).status, 201)
  matches(t, (await ada.page(path)).text, /This account is on trial/)
})

t.test(
  'a suspended or cancelled account cannot be resumed on its page, which says whom to contact',
  async (t) => {
    for (const status of ['suspended', 'cancelled'] as const) {
      await changeStatus(status)
      const { text } = await ada.page('/settings/account-state')
      matches(t, text, new RegExp(`This account is ${status}`))
      matches(t, text, /contact the operator/i)
      matches(t, text, new RegExp(account.id))
      t.notMatch(text, /Resume the trial<\/button>/)
      const rejected = await ada.send('POST', '/settings/account-state/resume')
      t.equal(rejected.json['code'], 'validation_failed')
      const { json } = await ada.get('/settings/account-state')
      t.strictSame(json, { object: 'account_state', status, read_only: true })
    }
  },
)
