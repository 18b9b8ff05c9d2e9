/** `npm run mutants` takes half an hour. This test checks only that each mutant can still be applied. */
import { globSync, readFileSync } from 'node:fs'
import t from 'tap'
import { MUTANTS } from '../fixtures/mutants/mutants.ts'

t.test('the text that a mutant replaces occurs exactly once', async (t) => {
  const sources = globSync('{gateway,backend,shared}/**/*.{ts,lua}')
  const texts = sources.map((file) => readFileSync(file, 'utf8'))
  const occurrences = (part: string) =>
    texts.reduce((sum, text) => sum + text.split(part).length - 1, 0)
  for (const { name, edits } of MUTANTS) {
    for (const { from } of edits) t.equal(occurrences(from), 1, `${name}: ${from}`)
  }
})
