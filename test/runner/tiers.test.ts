import t from 'tap'
import { TIERS } from '../fixtures/runner/tiers.ts'

t.test('the packages that the benchmarks install bring no test of theirs', (t) => {
  const files = TIERS.flatMap(({ parts }) => parts.flatMap((part) => part.files))
  t.strictSame(
    files.filter((file) => file.startsWith('test/load/')),
    [],
  )
  t.ok(files.includes('test/runner/tiers.test.ts'))
  t.end()
})
