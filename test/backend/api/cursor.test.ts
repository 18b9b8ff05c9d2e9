import t from 'tap'
import { signCursor, verifyCursor } from '../../../backend/api/cursor.ts'
import { throwsWith } from '../../fixtures/matches.ts'
import { fc } from '../../fixtures/properties.ts'

const KEYS = [Buffer.alloc(32, 1)]
const LIST_QUERY = {
  accountId: 'acct_1',
  operationId: 'listDebtors',
  sort: 'created_at desc',
  filters: { status: 'active', q: 'a' },
}
const POSITION = { value: '2026-11-21T10:15:00.000Z', id: 'deb_1' }

t.test('a cursor contains the position for which it was signed', async (t) => {
  t.strictSame(verifyCursor(KEYS, LIST_QUERY, signCursor(KEYS, LIST_QUERY, POSITION)), POSITION)
  const reordered = { ...LIST_QUERY, filters: { q: 'a', status: 'active' } }
  t.strictSame(verifyCursor(KEYS, reordered, signCursor(KEYS, LIST_QUERY, POSITION)), POSITION)
})

t.test('a cursor of another account, list, sort, filter or key is rejected', async (t) => {
  const cursor = signCursor(KEYS, LIST_QUERY, POSITION)
  const otherQueries = [
    { ...LIST_QUERY, accountId: 'acct_2' },
    { ...LIST_QUERY, operationId: 'listInvoices' },
    { ...LIST_QUERY, sort: 'created_at asc' },
    { ...LIST_QUERY, filters: { status: 'active' } },
    { ...LIST_QUERY, filters: { ...LIST_QUERY.filters, email: 'a@b.example' } },
  ]
  for (const listQuery of otherQueries) {
    throwsWith(t, () => verifyCursor(KEYS, listQuery, cursor), { code: 'invalid_cursor' })
  }
  throwsWith(t, () => verifyCursor([Buffer.alloc(32, 2)], LIST_QUERY, cursor), {
    code: 'invalid_cursor',
  })
})

// Regression: a rotation of SECRET_BOX_KEY made every cursor invalid, and backends that had been restarted rejected the
// cursors of the others.
t.test('while a key is replaced, the cursors of both keys are accepted', async (t) => {
  const [oldKey, newKey] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const [before, after] = [
    [oldKey, newKey],
    [newKey, oldKey],
  ]
  t.strictSame(verifyCursor(after, LIST_QUERY, signCursor(before, LIST_QUERY, POSITION)), POSITION)
  t.strictSame(verifyCursor(before, LIST_QUERY, signCursor(after, LIST_QUERY, POSITION)), POSITION)
})

t.test('any text other than the unchanged cursor is rejected', async () => {
  const cursor = signCursor(KEYS, LIST_QUERY, POSITION)
  const isAccepted = (text: string) => {
    try {
      verifyCursor(KEYS, LIST_QUERY, text)
      return true
    } catch {
      return false
    }
  }
  const tampered = fc
    .tuple(fc.nat(cursor.length - 1), fc.constantFrom('A', 'z', '_', '=', ' ', '\0'))
    .map(([at, character]) => cursor.slice(0, at) + character + cursor.slice(at + 1))
  const added = fc.constantFrom(`${cursor}=`, `${cursor} `, ` ${cursor}`, `${cursor}A`, '')
  fc.assert(
    fc.property(
      fc.oneof(tampered, added, fc.string()),
      (text) => text === cursor || !isAccepted(text),
    ),
  )
})
