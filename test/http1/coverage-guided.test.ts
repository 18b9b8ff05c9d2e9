/**
 * Whatever bytes arrive, `gateway/http1` either rejects them with an `Http1Error`, or reads the same message however
 * the bytes are split. It can also read each request that it writes. The corpora are in the repository. `FUZZ_SECONDS`
 * is the time for each corpus (120 in a long run), `SEED` selects other inputs, and `FUZZ_SAVE=1` adds new inputs to
 * the corpora.
 */
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { SEED } from '../fixtures/properties.ts'
import type { FuzzJob, FuzzReport } from './fixtures/fuzz-worker.ts'
import { TARGETS } from './fixtures/targets.ts'

const milliseconds = Number(process.env['FUZZ_SECONDS'] ?? 2) * 1_000

t.setTimeout(60_000 + 6 * milliseconds)

for (const target of Object.keys(TARGETS)) {
  t.test(
    `${target}: any bytes are rejected, or read in the same way however they are split`,
    async (t) => {
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
      t.ok(runs > corpus.length, 'new inputs were created from the corpus')
      if (process.env['FUZZ_SAVE'] === '1')
        writeFileSync(file, `${JSON.stringify(found, null, 1)}\n`)
    },
  )
}

async function fuzz(job: FuzzJob): Promise<FuzzReport> {
  const url = new URL('fixtures/fuzz-worker.ts', import.meta.url)
  // The worker runs without the loaders of the test runner, whose functions V8 would also count.
  const worker = new Worker(url, { workerData: job, execArgv: [], env: {} })
  const [report]: FuzzReport[] = await once(worker, 'message')
  if (report === undefined) throw new Error('the worker reported nothing')
  return report
}
