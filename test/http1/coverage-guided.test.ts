/**
 * Any bytes: `gateway/http1` rejects them with an `Http1Error`, or reads the same thing however they are
 * cut, and reads what it writes. The corpora are kept in the repository; `FUZZ_SECONDS` is for each of
 * them (the long form: 120), `FUZZ_SEED` repeats a run, and `FUZZ_SAVE=1` writes the inputs that were
 * found to the corpora.
 */
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import type { FuzzOrder, FuzzReport } from './fixtures/fuzz-worker.ts'
import { TARGETS } from './fixtures/targets.ts'

const seed = Number(process.env['FUZZ_SEED'] ?? Date.now() % 2 ** 31)
const milliseconds = Number(process.env['FUZZ_SECONDS'] ?? 2) * 1_000

t.setTimeout(60_000 + 6 * milliseconds)

for (const target of Object.keys(TARGETS)) {
  t.test(`${target}: any bytes are rejected, or read in one way`, async (t) => {
    const file = join(import.meta.dirname, 'fixtures', 'corpora', `${target}.json`)
    const corpus: string[] = JSON.parse(readFileSync(file, 'utf8'))
    const {
      runs,
      features,
      failure,
      corpus: found,
    } = await fuzz({ target, corpus, seed, milliseconds })
    t.comment(`seed ${seed}: ${runs} runs, ${features} features`)
    t.comment(`${corpus.length} inputs before, ${found.length} after`)
    t.equal(failure, undefined)
    t.ok(runs > corpus.length, 'inputs were made of the corpus')
    if (process.env['FUZZ_SAVE'] === '1') writeFileSync(file, `${JSON.stringify(found, null, 1)}\n`)
  })
}

async function fuzz(order: FuzzOrder): Promise<FuzzReport> {
  const url = new URL('fixtures/fuzz-worker.ts', import.meta.url)
  // Without the loaders of the test runner, whose functions V8 would count too.
  const worker = new Worker(url, { workerData: order, execArgv: [], env: {} })
  const [report]: FuzzReport[] = await once(worker, 'message')
  if (report === undefined) throw new Error('the worker reported nothing')
  return report
}
