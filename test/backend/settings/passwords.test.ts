// Hashes of passwords.
import t from 'tap'
import { createPasswords } from '../../../backend/users/passwords.ts'
import { matches } from '../../fixtures/matches.ts'

t.test(
  'a password is verified with its hash, which contains the parameters of the hash function',
  async (t) => {
    const passwords = createPasswords()
    const stored = await passwords.hash('Grüße an alle')
    matches(t, stored, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/)
    t.ok(await passwords.verify(stored, 'Grüße an alle'))
    t.ok(
      await passwords.verify(stored, 'Gru\u0308ße an alle'),
      'the same password in another Unicode normalization',
    )
    t.notOk(await passwords.verify(stored, 'Gruesse an alle'))
    t.not(await passwords.hash('Grüße an alle'), stored, 'each hash has its own salt')
  },
)

t.test('every password is rejected for an unknown user', async (t) => {
  const passwords = createPasswords()
  t.notOk(await passwords.verify(undefined, ''))
  t.notOk(await passwords.verify(undefined, 'correct horse'))
})

t.test(
  'of thirty concurrent logins, nine are rejected before their passwords are hashed',
  async (t) => {
    const passwords = createPasswords()
    const outcomes = await Promise.allSettled(
      Array.from({ length: 30 }, () => passwords.verify(undefined, 'x')),
    )
    const rejected = outcomes.filter(({ status }) => status === 'rejected')
    t.equal(rejected.length, 9, 'one password is being hashed, and twenty wait')
    matches(t, rejected[0], {
      reason: { code: 'service_unavailable', headers: { 'retry-after': '2' } },
    })
    t.notOk(await passwords.verify(undefined, 'x'), 'later logins are verified again')
  },
)
