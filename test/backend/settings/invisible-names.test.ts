// A name must have a visible character, because the links to a record show its name.
import t from 'tap'
import { startMoneySettings } from '../../fixtures/accounts/money-settings.ts'
import { matches } from '../../fixtures/matches.ts'

const FAMILY = '\u{1f468}\u200d\u{1f469}\u200d\u{1f467}'

t.test('a name without a visible character is rejected like an empty name', async (t) => {
  // Regression: a key or customer whose name was a zero-width space had a link without text.
  const { backend, account, ada, debtor } = await startMoneySettings(t)
  const { row } = await backend.issueKey(account.id)
  const key = await backend.issueKey(account.id)
  const create = (name: string) => backend.call(key, 'POST', '/api/v1/debtors', { body: { name } })
  const customer = `/settings/customers/${debtor.id}`
  for (const name of ['\u200b', ' \u2066\u2069 ', '\u3164', '\ufeff\u00ad']) {
    for (const [method, path] of [
      ['PUT', customer],
      ['PUT', `/settings/api-keys/${row.id}`],
      ['POST', '/settings/account'],
    ] as const) {
      const { status, json } = await ada.send(method, path, { name })
      t.strictSame([status, json['code']], [422, 'validation_failed'], path)
    }
    matches(t, await create(name), { status: 422, json: { code: 'validation_failed' } })
    t.equal((await ada.send('POST', `${customer}/pause`, { reason: name })).status, 422)
  }
  for (const name of [FAMILY, '\u200fעברית', 'क\u094d\u200dष']) {
    matches(t, await create(name), { status: 201, json: { name: name.normalize('NFC') } })
  }
})
