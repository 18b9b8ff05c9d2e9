import { readFileSync } from 'node:fs'
import t from 'tap'
import { BACKEND_SETTINGS } from '../../backend/config.ts'
import { GATEWAY_SETTINGS } from '../../gateway/config.ts'
import { PROBLEM_TYPES, SETTINGS_PROBLEM_TYPES } from '../../shared/contract/problem.ts'

function readGuide(name: string): string {
  return readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8')
}

t.test('docs/errors.md lists every error code with its status, and no other', async (t) => {
  const rows = [...readGuide('errors').matchAll(/^\| (\d{3}) \| (.+?) \|/gm)]
  const listed = rows.flatMap(([, status, codes = '']) =>
    [...codes.matchAll(/`([a-z_]+)`/g)].map(([, code]) => `${status} ${code}`),
  )
  const types = { ...PROBLEM_TYPES, ...SETTINGS_PROBLEM_TYPES }
  const known = Object.entries(types).map(([code, { status }]) => `${status} ${code}`)
  t.strictSame(listed.toSorted(), known.toSorted())
})

t.test('docs/settings.md lists every setting, and no other', async (t) => {
  const cells = [...readGuide('settings').matchAll(/^\| (`.+?) \|/gm)].map(
    ([, names = '']) => names,
  )
  const listed = cells.flatMap((names) =>
    [...names.matchAll(/`([A-Z_]+)`/g)].map(([, name]) => name),
  )
  const known = new Set([...Object.keys(GATEWAY_SETTINGS), ...Object.keys(BACKEND_SETTINGS)])
  t.strictSame(listed.toSorted(), [...known].toSorted())
})
