import t from 'tap'
import { TIERS } from '../fixtures/runner/tiers.ts'

t.test('tests in packages that the benchmarks install are in no tier', (t) => {
  const files = TIERS.flatMap(({ parts }) => parts.flatMap((part) => part.files))
  t.strictSame(
    files.filter((file) => file.startsWith('test/load/')),
    [],
  )
  t.ok(files.includes('test/runner/tiers.test.ts'))
  t.end()
})
