/** Plants what the layout forbids, one violation at a time, and reads the sentence that reports it. */
import { join } from 'node:path'
import t from 'tap'
import { BACKEND_LAYOUT } from '../fixtures/layout/backend-layout.ts'
import { GATEWAY_LAYOUT, SHARED_LAYOUT } from '../fixtures/layout/gateway-layout.ts'
import { type Imports, layoutFaults, readImports } from '../fixtures/layout/layout-faults.ts'

const root = join(import.meta.dirname, '..', '..')
const imports = readImports(root, '{backend,gateway,shared}/**/*.ts')

function planted(file: string, ...targets: string[]): Imports {
  return new Map([...imports, [file, [...(imports.get(file) ?? []), ...targets]]])
}

t.test('an import up the order fails', async (t) => {
  const found = layoutFaults(
    planted('backend/messages/lifecycle.ts', 'backend/reminders/rails.ts'),
    BACKEND_LAYOUT,
  )
  t.strictSame(found.slice(0, 1), [
    'backend/messages/lifecycle.ts imports backend/reminders/rails.ts: reminders/ stands above messages/. Move what both need into a folder below messages/, or pass it in as an argument where the process is composed (operations.ts and server.ts).',
  ])
})

t.test('an import down the order that the table does not list fails', async (t) => {
  t.strictSame(
    layoutFaults(planted('backend/docs/curl.ts', 'backend/mail/mail.ts'), BACKEND_LAYOUT),
    [
      'backend/docs/curl.ts imports backend/mail/mail.ts: docs/ may not import mail/ by test/fixtures/layout/backend-layout.ts. Move what it needs to a folder that it may import, or add mail to its line if it is meant to depend on it.',
    ],
  )
})

t.test('a circle of files fails', async (t) => {
  t.strictSame(
    layoutFaults(planted('backend/docs/page.ts', 'backend/docs/reference.ts'), BACKEND_LAYOUT),
    [
      'backend/docs/page.ts → backend/docs/reference.ts → backend/docs/page.ts is a circle of imports: move what they share into one that imports none of the others.',
    ],
  )
})

t.test('a circle of folders inside a folder fails', async (t) => {
  t.strictSame(
    layoutFaults(
      planted(
        'backend/settings/reminders/log-page.ts',
        'backend/settings/customers/customers-page.ts',
      ),
      BACKEND_LAYOUT,
    ),
    [
      'backend/settings/customers → backend/settings/reminders → backend/settings/customers is a circle of imports: move what they share into one that imports none of the others.',
    ],
  )
})

t.test('an import of the routes of another subject fails', async (t) => {
  t.strictSame(
    layoutFaults(
      planted('backend/payments/payments.ts', 'backend/invoices/routes.ts'),
      BACKEND_LAYOUT,
    ),
    [
      'backend/payments/payments.ts imports backend/invoices/routes.ts: routes are composed in operations.ts and server.ts alone. Import the domain of invoices/ instead.',
    ],
  )
})

t.test('an import of a subject by the database fails', async (t) => {
  const found = layoutFaults(
    planted('backend/database/copy.ts', 'backend/accounts/accounts.ts'),
    BACKEND_LAYOUT,
  )
  t.strictSame(found.slice(0, 1), [
    'backend/database/copy.ts imports backend/accounts/accounts.ts: accounts/ stands above database/. Move what both need into a folder below database/, or pass it in as an argument where the process is composed (operations.ts and server.ts).',
  ])
})

t.test('an import of what composes the process fails', async (t) => {
  t.strictSame(
    layoutFaults(planted('backend/lists/keyset.ts', 'backend/metrics.ts'), BACKEND_LAYOUT),
    [
      'backend/lists/keyset.ts imports backend/metrics.ts: files at the top of backend/ compose the process and are imported by no folder. Move what both need into a folder below lists/, or pass it in as an argument.',
    ],
  )
})

t.test('a folder that the table does not know fails', async (t) => {
  t.strictSame(layoutFaults(planted('backend/disputes/disputes.ts'), BACKEND_LAYOUT), [
    'backend/disputes/ is not in test/fixtures/layout/backend-layout.ts: add it after the folders that it imports and before those that import it.',
  ])
})

t.test('a folder of more than 20 files fails', async (t) => {
  const files = Array.from(
    { length: 20 },
    (_, n) => [`backend/retention/file-${n}.ts`, []] as const,
  )
  t.strictSame(layoutFaults(new Map([...imports, ...files]), BACKEND_LAYOUT), [
    'backend/retention/ has 21 source files beside each other, and 20 are the most: divide it by subject.',
  ])
})

t.test('a table out of order fails', async (t) => {
  const folders = { ...BACKEND_LAYOUT.folders, money: ['payments'] }
  t.strictSame(layoutFaults(imports, { ...BACKEND_LAYOUT, folders }), [
    'test/fixtures/layout/backend-layout.ts lets backend/money/ import backend/payments/, which does not stand before it: a folder may only import what stands before it there.',
  ])
})

t.test('the two sides of the gateway do not import each other', async (t) => {
  const found = layoutFaults(
    planted('gateway/downstream/listener.ts', 'gateway/upstream/forward.ts'),
    GATEWAY_LAYOUT,
  )
  t.strictSame(found, [
    'gateway/downstream/listener.ts imports gateway/upstream/forward.ts: downstream/ may not import upstream/ by test/fixtures/layout/gateway-layout.ts. Move what it needs to a folder that it may import, or add upstream to its line if it is meant to depend on it.',
  ])
})

t.test('shared/process imports nothing of shared/contract', async (t) => {
  const found = layoutFaults(
    planted('shared/process/log.ts', 'shared/contract/problem.ts'),
    SHARED_LAYOUT,
  )
  t.strictSame(found.slice(0, 1), [
    'shared/process/log.ts imports shared/contract/problem.ts: contract/ stands above process/. Move what both need into a folder below process/, or pass it in as an argument where the process is composed (gateway/gateway.ts and backend/server.ts).',
  ])
})
