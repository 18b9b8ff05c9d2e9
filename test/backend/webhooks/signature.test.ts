import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { createSecretBox } from '../../../backend/webhooks/secret-box.ts'
import { createSigningSecret, signWebhook } from '../../../backend/webhooks/signature.ts'
import { matches, throwsWith } from '../../fixtures/matches.ts'

t.test('a signature equals the one in the published test vector', async (t) => {
  const message = {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    timestampSeconds: 1_614_265_330,
    body: Buffer.from('{"test": 2432232314}'),
  }
  t.equal(
    signWebhook(message, ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw']),
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  )
})

t.test('the library standardwebhooks accepts our signatures with either secret', async (t) => {
  const [secret, next] = [createSigningSecret(), createSigningSecret()]
  const body = Buffer.from('{"note":"é €"}')
  const timestampSeconds = Math.floor(Date.now() / 1000)
  const headers = {
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signWebhook({ id: 'evt_1', timestampSeconds, body }, [next, secret]),
  }
  for (const known of [secret, next]) {
    t.strictSame(new Webhook(known).verify(body, headers), { note: 'é €' })
  }
  t.throws(() => new Webhook(createSigningSecret()).verify(body, headers))
  t.throws(() => new Webhook(secret).verify('{"note":"other"}', headers))
  t.throws(() => new Webhook(secret).verify(body, { ...headers, 'webhook-id': 'evt_2' }))
  t.throws(() =>
    new Webhook(secret).verify(body, {
      ...headers,
      'webhook-timestamp': String(timestampSeconds - 1),
    }),
  )
})

t.test('a secret is whsec_ and 32 random bytes in base64', async (t) => {
  const secret = createSigningSecret()
  matches(t, secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
  t.not(createSigningSecret(), secret)
})

const OWNER = { accountId: 'acct_1', recordId: 'whe_1' }

t.test('a sealed secret can be opened for its own endpoint only', async (t) => {
  const secretBox = createSecretBox([Buffer.alloc(32, 1)])
  const sealed = secretBox.seal('whsec_abc', OWNER)
  t.equal(secretBox.open(sealed, OWNER), 'whsec_abc')
  t.notMatch(sealed, /whsec_abc/)
  t.not(secretBox.seal('whsec_abc', OWNER), sealed, 'each encryption of a secret differs')
  t.throws(() => secretBox.open(sealed, { ...OWNER, recordId: 'whe_2' }))
  t.throws(() => secretBox.open(sealed, { ...OWNER, accountId: 'acct_2' }))
  // Regression: the error was that the key is missing.
  throwsWith(t, () => secretBox.open(sealed.replace('v1', 'v2'), OWNER), /by another version/)
  const [version, id, text = ''] = sealed.split('.')
  const flipped = Buffer.from(text, 'base64url')
  flipped[14] = (flipped[14] ?? 0) ^ 1
  t.throws(() => secretBox.open([version, id, flipped.toString('base64url')].join('.'), OWNER))
})

t.test('an old key still opens secrets; a missing key is named in the error', async (t) => {
  const [old, current] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const sealed = createSecretBox([old]).seal('whsec_abc', OWNER)
  t.equal(createSecretBox([current, old]).open(sealed, OWNER), 'whsec_abc')
  const resealed = createSecretBox([current, old]).seal('whsec_abc', OWNER)
  t.equal(createSecretBox([current]).open(resealed, OWNER), 'whsec_abc')
  throwsWith(
    t,
    () => createSecretBox([current]).open(sealed, OWNER),
    /encrypted with key [0-9a-f]{8}/,
  )
})
