import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { matches } from '../fixtures/matches.ts'
import { type KeyInput, startSystem } from '../fixtures/service/system.ts'

/** The rows of 60 invoices of 9 customers. Every fourth is unpaid, and two are in another currency. */
const ROWS = Array.from({ length: 60 }, (_, index) => {
  const settled = index % 4 === 0 ? '' : `3/${(index % 28) + 1}/2013`
  const currency = index < 2 ? 'KWD' : 'USD'
  return `000${index},C ${index % 9},1/2/2013,2/1/2013,${index + 10}.${currency === 'KWD' ? '005' : '35'},${settled},${currency}`
})
const LEDGER = [
  'invoiceNumber,customerID,InvoiceDate,DueDate,InvoiceAmount,SettledDate,Currency',
  ...ROWS,
].join('\r\n')
const SCOPES = [
  ...(['debtors:read', 'debtors:write', 'invoices:read', 'invoices:write'] as const),
  ...(['payments:read', 'payments:write'] as const),
]

async function startWithLedger(t: Test) {
  const system = await startSystem(t)
  const accountId = await system.operator.createAccount()
  const directory = system.env['DATA_DIR'] ?? ''
  const file = join(directory, 'ledger.csv')
  writeFileSync(file, LEDGER)
  let keyCount = 0
  return {
    ...system,
    /** Issues a key. Resolves with its secret and the arguments of an import that uses it. */
    async prepareImport(input: KeyInput = {}): Promise<{ secret: string; args: string[] }> {
      const { secret } = await system.operator.issueKey(accountId, { scopes: SCOPES, ...input })
      const keyFile = join(directory, `key-${keyCount++}`)
      // Editors on Windows end lines like this.
      writeFileSync(keyFile, `${secret}\r\n`, { mode: 0o600 })
      const options = ['--date-format', 'M/D/YYYY', '--base-url', system.url, '--key-file', keyFile]
      return { secret, args: ['import', file, ...options] }
    },
  }
}

t.test(
  'a ledger that is imported twice is recorded once, and all totals agree exactly',
  async (t) => {
    const { operator, url, prepareImport } = await startWithLedger(t)
    const { args, secret } = await prepareImport()
    const first = JSON.parse(await operator.cli(...args, '--json'))
    matches(t, first, {
      agrees: true,
      recorded: { debtors: 9, invoices: 60, payments: 45 },
      currencies: [
        { currency: 'KWD', service: { invoices: 2, invoiced: 21_010, paid: 11_005, open: 10_005 } },
        { currency: 'USD', service: { invoices: 58, payments: 44 } },
      ],
      refusals: [],
    })
    const second = JSON.parse(await operator.cli(...args, '--json'))
    matches(t, second, { agrees: true, recorded: { debtors: 0, invoices: 0, payments: 0 } })
    t.strictSame(second.currencies, first.currencies)

    const response = await fetch(`${url}/api/v1/debtors?limit=200`, {
      headers: { authorization: `Bearer ${secret}` },
    })
    const { data } = (await response.json()) as { data: { balances: Balance[] }[] }
    const balances = data.flatMap((debtor) => debtor.balances)
    for (const { currency, file } of first.currencies) {
      const owed = balances.filter((balance) => balance.currency === currency)
      t.equal(
        owed.reduce((sum, { outstanding }) => sum + outstanding, 0),
        file.open,
        `debtors owe the open amount of the file in ${currency}`,
      )
    }
  },
)

interface Balance {
  readonly currency: string
  readonly outstanding: number
}

const LIMITED = /hourly limit of the key is reached, continues in/

t.test(
  'an import that stops at the limit of its key can be completed with another key',
  async (t) => {
    const { operator, env, prepareImport } = await startWithLedger(t)
    const { args } = await prepareImport({ rateLimit: 40 })
    const child = spawn(process.execPath, ['backend/cli.ts', ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    const exited = once(child, 'exit')
    let shown = ''
    for await (const chunk of child.stderr) {
      const waited = LIMITED.test(shown)
      shown += chunk
      if (!waited && LIMITED.test(shown)) child.kill('SIGINT')
    }
    matches(t, shown, /117 calls. At 40 an hour, this takes about [12] h/)
    matches(t, shown, /Run the same command again: it continues where it stopped/)
    t.equal((await exited)[0], 1)

    const rest = JSON.parse(await operator.cli(...(await prepareImport()).args, '--json'))
    matches(t, rest, { agrees: true })
    t.ok(
      rest.recorded.invoices > 0 && rest.recorded.invoices < 60,
      'the second import continued where the first had stopped',
    )
  },
)
