/**
 * Whatever bytes arrive, `gateway/http1` rejects them with an `Http1Error`, or reads the same message however
 * they are split; and it can read what it writes. The corpora are in the repository. `FUZZ_SECONDS` is the time
 * for each of them (120 in the long form), `SEED` makes other inputs, and `FUZZ_SAVE=1` adds new inputs to the
 * corpora.
 */
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { SEED } from '../fixtures/properties.ts'
import type { FuzzOrder, FuzzReport } from './fixtures/fuzz-worker.ts'
import { TARGETS } from './fixtures/targets.ts'

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
    } = await fuzz({ target, corpus, seed: SEED, milliseconds })
    t.comment(`seed ${SEED}: ${runs} runs, ${features} features`)
    t.comment(`${corpus.length} inputs before, ${found.length} after`)
    t.equal(failure, undefined)
    t.ok(runs > corpus.length, 'inputs were made of the corpus')
    if (process.env['FUZZ_SAVE'] === '1') writeFileSync(file, `${JSON.stringify(found, null, 1)}\n`)
  })
}

async function fuzz(order: FuzzOrder): Promise<FuzzReport> {
  const url = new URL('fixtures/fuzz-worker.ts', import.meta.url)
  // It runs without the loaders of the test runner, whose functions V8 would count too.
  const worker = new Worker(url, { workerData: order, execArgv: [], env: {} })
  const [report]: FuzzReport[] = await once(worker, 'message')
  if (report === undefined) throw new Error('the worker reported nothing')
  return report
}
