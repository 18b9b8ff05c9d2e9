import t from 'tap'
import { PRINCIPAL_HEADER } from '../../../shared/contract/principal.ts'
import { openTestAccount, type TestAccount } from '../../fixtures/accounts/test-account.ts'
import { matches } from '../../fixtures/matches.ts'

const DEBTORS = '/api/v1/debtors'
const PAYMENTS = '/api/v1/payments'

const postRaw = (
  testAccount: TestAccount,
  path: string,
  headers: Record<string, string>,
  body: string,
) => testAccount.call('POST', path, { headers, body })

t.test('GET /me describes the key and its account', async (t) => {
  const testAccount = await openTestAccount(t)
  const { row } = testAccount.key
  const me = await testAccount.read('/api/v1/me')
  matches(t, me, {
    object: 'probe',
    account: {
      id: testAccount.accountId,
      name: 'Acme Ltd',
      status: 'active',
      read_only: false,
      timezone: 'Europe/Amsterdam',
      default_currency: 'EUR',
      currency_exponent: 2,
    },
    key: {
      id: row.id,
      label: row.name,
      prefix: row.prefix,
      rate_limit: 600,
      rate_limit_window_seconds: 3600,
      last_used_at: null,
    },
  })
  t.strictSame(me.key.scopes, me.key.granted_scopes)
  t.equal(me.key.scopes.length, 7)
})

t.test('HEAD has the response of GET, without a body', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id } = await testAccount.createDebtor()
  for (const path of ['/api/v1/me', DEBTORS, `${DEBTORS}/${id}`, `${DEBTORS}/x`]) {
    const [head, get] = [await testAccount.call('HEAD', path), await testAccount.get(path)]
    t.equal(head.status, get.status, path)
    t.equal(head.text, '')
    t.equal(head.headers.get('content-type'), get.headers.get('content-type'))
  }
})

t.test('checks run in a fixed order, and the first that fails decides the response', async (t) => {
  const testAccount = await openTestAccount(t)
  const setStatus = (status: 'active' | 'suspended') =>
    testAccount.backend.database.transaction((tx) =>
      tx.updateTable('accounts').set({ status }).where('id', '=', testAccount.accountId).execute(),
    )
  const form = { 'content-type': 'application/x-www-form-urlencoded', 'idempotency-key': 'a b' }
  const json = { 'content-type': 'application/json' }
  await setStatus('suspended')
  const readOnly = await postRaw(testAccount, `${PAYMENTS}?x=1`, form, '{')
  t.equal(readOnly.status, 423)
  matches(t, readOnly.json, {
    code: 'account_read_only',
    account_status: 'suspended',
    resume_url: 'https://receivables.test/settings/account-state',
  })
  t.equal((await testAccount.get(PAYMENTS)).status, 200, 'reads continue')
  await setStatus('active')
  const steps = [
    [form, '{', 415, 'unsupported_media_type'],
    [{ ...json, 'idempotency-key': 'a b' }, '{', 400, 'idempotency_key_invalid'],
    [json, '{', 400, 'idempotency_key_required'],
    [{ ...json, 'idempotency-key': 'k' }, '{', 400, 'malformed_json'],
    [{ ...json, 'idempotency-key': 'k' }, '{"a":1,"a":2}', 400, 'duplicate_json_key'],
    [{ ...json, 'idempotency-key': 'k' }, '{}', 422, 'validation_failed'],
  ] as const
  for (const [headers, body, status, code] of steps) {
    const response = await postRaw(testAccount, PAYMENTS, headers, body)
    t.equal(response.status, status, code)
    matches(t, response.json, { code })
  }
})

t.test(
  'the rejection of a write to a read-only account contains the status of the account',
  async (t) => {
    for (const status of ['trial_paused', 'suspended', 'cancelled'] as const) {
      const testAccount = await openTestAccount(t, { status })
      for (const path of [DEBTORS, '/api/v1/invoices', PAYMENTS]) {
        const response = await testAccount.post(path, {})
        t.equal(response.status, 423)
        matches(t, response.json, { account_status: status })
      }
      matches(t, await testAccount.read('/api/v1/me'), { account: { status, read_only: true } })
    }
  },
)

t.test('a body is accepted only as uncompressed application/json in UTF-8', async (t) => {
  const testAccount = await openTestAccount(t)
  const types = [
    'application/json',
    'Application/JSON;charset=UTF-8',
    'application/json; charset="utf-8"',
    // Regression: types with empty parameters were rejected.
    'application/json;',
    'application/json; ; charset=utf-8 ;',
  ]
  for (const type of types) {
    t.equal(
      (await postRaw(testAccount, DEBTORS, { 'content-type': type }, '{"name":"a"}')).status,
      201,
      type,
    )
  }
  const identity = { 'content-type': 'application/json', 'content-encoding': 'identity' }
  t.equal((await postRaw(testAccount, DEBTORS, identity, '{"name":"a"}')).status, 201)
  const rejected = [
    { 'content-type': 'text/plain' },
    { 'content-type': 'application/json; charset=utf-16' },
    { 'content-type': 'application/jsoncharset=utf-8' },
    { 'content-type': 'application/json; charset=utf-8; charset=utf-8' },
    { 'content-type': 'application/json, text/html' },
    { 'content-type': 'application/problem+json' },
    { 'content-type': 'multipart/form-data; boundary=x' },
    { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    { 'content-type': 'application/json', 'content-encoding': 'br' },
  ]
  for (const headers of rejected) {
    const response = await postRaw(testAccount, DEBTORS, { ...headers }, '{"name":"a"}')
    t.equal(response.status, 415, JSON.stringify(headers))
    matches(t, response.json, { code: 'unsupported_media_type' })
    t.equal(response.headers.get('accept'), 'application/json')
  }
})

t.test(
  'a body without a media type is not parsed as JSON; an empty JSON body is malformed',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const send = async (body: Uint8Array<ArrayBuffer> | undefined, headers = {}) => {
      const principal = await testAccount.backend.principalOf(testAccount.key)
      const response = await fetch(testAccount.backend.url + DEBTORS, {
        method: 'POST',
        headers: { [PRINCIPAL_HEADER]: principal, ...headers },
        ...(body === undefined ? {} : { body }),
      })
      return { status: response.status, json: await response.json() }
    }
    const json = { 'content-type': 'application/json' }
    t.equal((await send(new TextEncoder().encode('{"name":"a"}'))).status, 415)
    matches(t, await send(undefined, json), { status: 400, json: { code: 'malformed_json' } })
    const invalid = new Uint8Array([...new TextEncoder().encode('{"name":"'), 0xff, 0x22, 0x7d])
    matches(t, await send(invalid, json), { status: 400, json: { code: 'malformed_json' } })
  },
)

t.test(
  'an Idempotency-Key is 1 to 255 visible characters, optionally in one pair of quotes',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const post = (key: string) =>
      testAccount.post(DEBTORS, { name: 'a' }, { 'idempotency-key': key })
    for (const key of ['a', '!~', 'x'.repeat(255), `"${'y'.repeat(255)}"`, '"', '""""']) {
      t.equal((await post(key)).status, 201, key)
    }
    for (const key of ['', '""', 'a b', 'a, a', 'x'.repeat(256), 'ä']) {
      const response = await post(key)
      t.equal(response.status, 400, key)
      matches(t, response.json, { code: 'idempotency_key_invalid' })
    }
  },
)

t.test('of more than 1,000 invalid fields, the response names the first 1,000', async (t) => {
  // Regression: the detail said that `errors` contains all of them.
  const testAccount = await openTestAccount(t)
  const fields = Object.fromEntries(Array.from({ length: 1001 }, (_, n) => [`f${n}`, n]))
  const { json } = await testAccount.post(DEBTORS, { name: 'X', ...fields })
  t.equal(json['detail'], '1001 fields are wrong. The first 1000 are listed in errors.')
  t.equal((json['errors'] as unknown[]).length, 1000)
})

t.test('of the items beyond the maximum, only the first is validated', async (t) => {
  // Regression: validating 60,000 items blocked the backend for two seconds.
  const testAccount = await openTestAccount(t)
  const body = { currency: 'EUR', debtor_id: 'x', line_items: Array(1000).fill({}) }
  const { status, json } = await testAccount.post('/api/v1/invoices', body)
  t.equal(status, 422)
  const errors = json['errors'] as { pointer: string; code: string }[]
  t.ok(errors.some(({ pointer, code }) => pointer === '/line_items' && code === 'too_long'))
  t.ok(errors.some(({ pointer }) => pointer === '/line_items/200/description'))
  t.notOk(errors.some(({ pointer }) => pointer === '/line_items/201/description'))
})

t.test('a text may have up to 30 combining marks in a row', async (t) => {
  // Regression: one call could block the backend for 20 seconds, because the time to normalize a text is quadratic in
  // this number.
  const testAccount = await openTestAccount(t)
  const debtor = await testAccount.createDebtor({ name: `a${'\u0301\u0323'.repeat(15)}` })
  t.equal(debtor.name, `\u1ea1${'\u0323'.repeat(14)}${'\u0301'.repeat(15)}`)
  const long = `a${'\u0301\u0323'.repeat(60_000)}`
  for (const fields of [{ name: long }, { name: 'a', metadata: { [long]: 'b' } }]) {
    const { json } = await testAccount.post(DEBTORS, fields)
    matches(t, json, { status: 422, errors: [{ code: 'invalid_format' }] })
  }
})

t.test('names that are special in JavaScript have no special effect', async (t) => {
  const testAccount = await openTestAccount(t)
  const json = { 'content-type': 'application/json' }
  const proto = await postRaw(
    testAccount,
    DEBTORS,
    json,
    '{"name":"a","__proto__":{"status":"archived"}}',
  )
  const detail = '__proto__ is not a field of this object.'
  matches(t, proto.json, {
    detail: `At /__proto__: ${detail}`,
    errors: [{ pointer: '/__proto__', code: 'unknown_field', detail }],
  })
  const body = '{"name":"a","metadata":{"constructor":"x","toString":"y"}}'
  matches(t, (await postRaw(testAccount, DEBTORS, json, body)).json, {
    metadata: { constructor: 'x', toString: 'y' },
  })
})
