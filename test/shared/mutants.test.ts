/** `npm run mutants` takes half an hour. This test only checks that its edits still apply. */
import { globSync, readFileSync } from 'node:fs'
import t from 'tap'
import { MUTANTS } from '../fixtures/mutants/mutants.ts'

t.test('each edit of a mutant applies to one place of the product', async (t) => {
  const sources = globSync('{gateway,backend,shared}/**/*.{ts,lua}')
  const texts = sources.map((file) => readFileSync(file, 'utf8'))
  const occurrences = (part: string) =>
    texts.reduce((sum, text) => sum + text.split(part).length - 1, 0)
  for (const { name, edits } of MUTANTS) {
    for (const { from } of edits) t.equal(occurrences(from), 1, `${name}: ${from}`)
  }
})
