/** Adds one violation of the layout at a time, and checks the sentence that reports it. */
import { join } from 'node:path'
import t from 'tap'
import { BACKEND_LAYOUT } from '../fixtures/layout/backend-layout.ts'
import { GATEWAY_LAYOUT, SHARED_LAYOUT } from '../fixtures/layout/gateway-layout.ts'
import { type Imports, layoutFaults, readImports } from '../fixtures/layout/layout-faults.ts'

const root = join(import.meta.dirname, '..', '..')
const imports = readImports(root, '{backend,gateway,shared}/**/*.ts')

function withImports(file: string, ...targets: string[]): Imports {
  return new Map([...imports, [file, [...(imports.get(file) ?? []), ...targets]]])
}

t.test('an import of a later folder is a fault', async (t) => {
  const found = layoutFaults(
    withImports('backend/messages/lifecycle.ts', 'backend/reminders/safety-rails.ts'),
    BACKEND_LAYOUT,
  )
  t.strictSame(found.slice(0, 1), [
    'backend/messages/lifecycle.ts imports backend/reminders/safety-rails.ts: reminders/ is above messages/. Move what both need into a folder below messages/, or pass it in as an argument where the process is composed (operations.ts and server.ts).',
  ])
})

t.test('an import of an earlier folder that the table does not list is a fault', async (t) => {
  t.strictSame(
    layoutFaults(withImports('backend/docs/curl.ts', 'backend/mail/mail.ts'), BACKEND_LAYOUT),
    [
      'backend/docs/curl.ts imports backend/mail/mail.ts: docs/ may not import mail/ according to test/fixtures/layout/backend-layout.ts. Move what docs/ needs to a folder that it may import, or add mail to its list if it should depend on mail/.',
    ],
  )
})

t.test('a circular import of files is a fault', async (t) => {
  t.strictSame(
    layoutFaults(withImports('backend/docs/page.ts', 'backend/docs/reference.ts'), BACKEND_LAYOUT),
    [
      'backend/docs/page.ts → backend/docs/reference.ts → backend/docs/page.ts is a circular import: move what they share into a file or folder that imports none of them.',
    ],
  )
})

t.test('a circular import between subfolders of a folder is a fault', async (t) => {
  t.strictSame(
    layoutFaults(
      withImports(
        'backend/settings/reminders/log-page.ts',
        'backend/settings/customers/customer-parts.ts',
      ),
      BACKEND_LAYOUT,
    ),
    [
      'backend/settings/customers → backend/settings/reminders → backend/settings/customers is a circular import: move what they share into a file or folder that imports none of them.',
    ],
  )
})

t.test('an import of the routes of another subject is a fault', async (t) => {
  t.strictSame(
    layoutFaults(
      withImports('backend/payments/payments.ts', 'backend/invoices/routes.ts'),
      BACKEND_LAYOUT,
    ),
    [
      'backend/payments/payments.ts imports backend/invoices/routes.ts: only operations.ts and server.ts may import routes of another folder. Import the domain of invoices/ instead.',
    ],
  )
})

t.test('an import of a subject by the database is a fault', async (t) => {
  const found = layoutFaults(
    withImports('backend/database/copy.ts', 'backend/accounts/accounts.ts'),
    BACKEND_LAYOUT,
  )
  t.strictSame(found.slice(0, 1), [
    'backend/database/copy.ts imports backend/accounts/accounts.ts: accounts/ is above database/. Move what both need into a folder below database/, or pass it in as an argument where the process is composed (operations.ts and server.ts).',
  ])
})

t.test('an import of a file that composes the process is a fault', async (t) => {
  t.strictSame(
    layoutFaults(withImports('backend/erasure/erasure.ts', 'backend/metrics.ts'), BACKEND_LAYOUT),
    [
      'backend/erasure/erasure.ts imports backend/metrics.ts: files at the top of backend/ compose the process, and no folder imports them. Move what both need into a folder below erasure/, or pass it in as an argument.',
    ],
  )
})

t.test('a folder that the table does not contain is a fault', async (t) => {
  t.strictSame(layoutFaults(withImports('backend/disputes/disputes.ts'), BACKEND_LAYOUT), [
    'backend/disputes/ is not in test/fixtures/layout/backend-layout.ts: add it after the folders that it imports and before those that import it.',
  ])
})

t.test('a folder of more than 20 files is a fault', async (t) => {
  const files = Array.from(
    { length: 20 },
    (_, n) => [`backend/retention/file-${n}.ts`, []] as const,
  )
  t.strictSame(layoutFaults(new Map([...imports, ...files]), BACKEND_LAYOUT), [
    'backend/retention/ has 21 source files, and at most 20 are allowed: divide it by subject.',
  ])
})

t.test('a table that is not in order is a fault', async (t) => {
  const folders = { ...BACKEND_LAYOUT.folders, money: ['payments'] }
  t.strictSame(layoutFaults(imports, { ...BACKEND_LAYOUT, folders }), [
    'test/fixtures/layout/backend-layout.ts lets backend/money/ import backend/payments/, which is not listed before it: a folder may import only folders that are listed before it.',
  ])
})

t.test('an import of upstream/ by downstream/ is a fault', async (t) => {
  const found = layoutFaults(
    withImports('gateway/downstream/listener.ts', 'gateway/upstream/forward.ts'),
    GATEWAY_LAYOUT,
  )
  t.strictSame(found, [
    'gateway/downstream/listener.ts imports gateway/upstream/forward.ts: downstream/ may not import upstream/ according to test/fixtures/layout/gateway-layout.ts. Move what downstream/ needs to a folder that it may import, or add upstream to its list if it should depend on upstream/.',
  ])
})

t.test('an import of shared/contract by shared/process is a fault', async (t) => {
  const found = layoutFaults(
    withImports('shared/process/log.ts', 'shared/contract/problem.ts'),
    SHARED_LAYOUT,
  )
  t.strictSame(found.slice(0, 1), [
    'shared/process/log.ts imports shared/contract/problem.ts: contract/ is above process/. Move what both need into a folder below process/, or pass it in as an argument where the process is composed (gateway/gateway.ts and backend/server.ts).',
  ])
})
