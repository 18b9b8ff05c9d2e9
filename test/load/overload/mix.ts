/** The calls of the overload: 1,000 keys of one account, and the records that the calls name. */
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { SCOPES } from '../../../backend/accounts/scopes.ts'
import { type IssuedApiKey, issueApiKey } from '../../../backend/api-keys/api-keys.ts'
import { openDatabase } from '../../../backend/database/open.ts'
import { PRINCIPAL_LIFETIME_MS, signPrincipal } from '../../../shared/contract/principal.ts'
import { createLogger } from '../../../shared/process/log.ts'
import { call } from '../../fixtures/service/call.ts'
import { GATEWAY_SECRET } from '../../fixtures/service/gateway.ts'
import type { System } from '../../fixtures/service/system.ts'

const KEYS = 1_000
const DEBTORS = 1_000
const SEEDERS = 32

let payments = 0

/** The keys and records from which calls choose at random. */
export interface Mix {
  readonly keys: readonly string[]
  readonly ids: readonly string[]
  /** Returns a new principal of the first key, for calls without a gateway. */
  principal(): string
}

/** Issues the keys, and creates debtors with one invoice each through the API. */
export async function createMix({ url, env, operator }: System): Promise<Mix> {
  const accountId = await operator.createAccount()
  const log = createLogger('benchmark', 'error')
  const databaseUrl = env['DATABASE_URL'] ?? `sqlite:${env['DATA_DIR']}/receivables.db`
  const database = await openDatabase({ url: databaseUrl, log, openedBy: 'operator' })
  const [version = '', secret = ''] = (env['KEY_PEPPER'] ?? '').split(':')
  const issuedKeys = await database.transaction(async (tx) => {
    const actionContext = { actor: OPERATOR, now: new Date() }
    const input = { accountId, scopes: SCOPES, rateLimit: 1_000_000_000 }
    const issued: IssuedApiKey[] = []
    for (let n = 0; n < KEYS; n++) {
      const named = { ...input, name: `Key ${n}` }
      issued.push(await issueApiKey(tx, named, [{ version, secret }], actionContext))
    }
    return issued
  })
  await database.close()
  const keys = issuedKeys.map((issued) => issued.secret)
  const ids: string[] = []
  const numbers = Array.from({ length: DEBTORS }, (_, n) => n).values()
  const create = async (path: string, body: object): Promise<string> => {
    const response = await call(`${url}/api/v1/${path}`, { key: keys[0] ?? '', body })
    if (response.status !== 201) throw new Error(`${path}: ${response.status} ${response.text}`)
    return response.json.id
  }
  const seeders = Array.from({ length: SEEDERS }, async () => {
    for (const n of numbers) {
      const id = await create('debtors', { name: `Customer ${n}`, currency: 'EUR' })
      await create('invoices', { debtor_id: id, currency: 'EUR', amount: 12_500 })
      ids.push(id)
    }
  })
  await Promise.all(seeders)
  const claims = {
    keyId: issuedKeys[0]?.row.id ?? '',
    accountId,
    keyRevision: 1,
    accountRevision: 1,
  }
  const principal = () =>
    signPrincipal(claims, Date.now() + PRINCIPAL_LIFETIME_MS, [GATEWAY_SECRET])
  return { keys, ids, principal }
}

/** Returns a read by id, a list of 50 or a payment, 14, 4 and 2 of 20 times, with a random key. */
export function mixedCall({ keys, ids }: Mix): Buffer {
  const key = keys[Math.floor(Math.random() * keys.length)]
  const id = ids[Math.floor(Math.random() * ids.length)]
  const kind = Math.floor(Math.random() * 20)
  const head = (method: string, path: string) =>
    `${method} /api/v1/${path} HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer ${key}\r\n`
  if (kind < 14) return Buffer.from(`${head('GET', `debtors/${id}`)}\r\n`)
  if (kind < 18) return Buffer.from(`${head('GET', 'invoices?limit=50')}\r\n`)
  const body = JSON.stringify({ debtor_id: id, currency: 'EUR', amount: 1 })
  const fields = `Idempotency-Key: ${process.pid}-${++payments}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n`
  return Buffer.from(`${head('POST', 'payments')}${fields}\r\n${body}`)
}
