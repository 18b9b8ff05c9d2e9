// Users: e-mail addresses and the length of passwords.
import t from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { type ActionContext, OPERATOR } from '../../../backend/accounts/audit.ts'
import { checkPasswordLength } from '../../../backend/users/password-rules.ts'
import { createUser, findUserByEmail, type NewUser } from '../../../backend/users/users.ts'
import { matches, rejectsWith, throwsWith } from '../../fixtures/matches.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'

const ACTION_CONTEXT: ActionContext = { actor: OPERATOR, now: new Date('2026-11-21T10:15:00.000Z') }

t.test('an e-mail address belongs to one user, regardless of case', async (t) => {
  const database = await openTestDatabase(t)
  const { id } = await database.transaction((tx) =>
    createAccount(tx, { name: 'Acme' }, ACTION_CONTEXT),
  )
  const create = (input: Partial<NewUser>) =>
    database.transaction((tx) =>
      createUser(
        tx,
        { accountId: id, email: 'a@b.example', role: 'member', passwordHash: 'x', ...input },
        ACTION_CONTEXT,
      ),
    )
  const user = await create({ email: ' Ada@B.example ' })
  matches(t, user, { email: 'ada@b.example', role: 'member', status: 'active' })
  t.strictSame(await findUserByEmail(database.read, 'ADA@b.example'), user)
  await rejectsWith(t, create({ email: 'ada@b.EXAMPLE' }), {
    code: 'validation_failed',
    message: 'There is already a user ada@b.example.',
  })
  for (const email of [
    '',
    'ada',
    'a@b@c',
    'a b@c',
    'a@b,c@d',
    '@b',
    `${'a'.repeat(250)}@b.example`,
  ])
    await rejectsWith(t, create({ email }), { code: 'validation_failed' }, JSON.stringify(email))
  await rejectsWith(t, create({ accountId: 'acct_none' }), { code: 'not_found' })
})

t.test('all spellings of an address with an umlaut belong to one user', async (t) => {
  // Regression: addresses with a composed and a decomposed umlaut counted as different, and mail servers without
  // SMTPUTF8 rejected both.
  const database = await openTestDatabase(t)
  const { id } = await database.transaction((tx) =>
    createAccount(tx, { name: 'Acme' }, ACTION_CONTEXT),
  )
  const create = (email: string) =>
    database.transaction((tx) =>
      createUser(tx, { accountId: id, email, role: 'member', passwordHash: 'x' }, ACTION_CONTEXT),
    )
  const user = await create('Jörg@MÜNCHEN.example')
  t.equal(user.email, 'jörg@xn--mnchen-3ya.example')
  const spellings = ['jo\u0308rg@mu\u0308nchen.example', 'JÖRG@münchen.example', user.email]
  for (const spelling of spellings) {
    t.strictSame(await findUserByEmail(database.read, spelling), user)
    await rejectsWith(t, create(spelling), { code: 'validation_failed' })
  }
  await rejectsWith(t, create('a@mün chen.example'), { code: 'validation_failed' })
  await rejectsWith(t, create('a@ü%.example'), { code: 'validation_failed' })
})

t.test('a password has 8 to 256 characters', async (t) => {
  throwsWith(t, () => checkPasswordLength('1234567'), { code: 'validation_failed' })
  throwsWith(t, () => checkPasswordLength('x'.repeat(257)), { code: 'validation_failed' })
  t.doesNotThrow(() => checkPasswordLength('12345678'))
})
