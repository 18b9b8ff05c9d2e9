// Concurrent requests for the preview of reminders, and its cache.
import t from 'tap'
import { createPreviews, SLOW_MS } from '../../../backend/settings/reminders/previews.ts'
import { rejectsWith } from '../../fixtures/matches.ts'

const NOW = new Date('2026-11-21T10:15:00.000Z')
const WAIT_MS = 60_000
const currentAt = (at: Date) => ({ preview: { messages: [], at }, isComputing: false })

t.test(
  'a request during a computation shares its result, or gets none if the computation takes too long',
  async (t) => {
    const previews = createPreviews()
    const finish: ((messages: readonly never[]) => void)[] = []
    const compute = () => new Promise<readonly never[]>((resolve) => finish.push(resolve))
    const early = await Promise.all([
      previews.get('a', NOW, 1, compute),
      previews.get('a', NOW, 1, compute),
    ])
    const none = { preview: undefined, isComputing: true }
    t.strictSame(early, [none, none])
    t.equal(finish.length, 1, 'the preview is computed once')
    const waiting = previews.get('a', NOW, WAIT_MS, compute)
    finish[0]?.([])
    t.strictSame(await waiting, currentAt(NOW))
    const other = previews.get('a', NOW, WAIT_MS, compute)
    finish[1]?.([])
    await other
    t.equal(finish.length, 2, 'a quick result is not cached')
  },
)

t.test('a failed computation is repeated at the next request', async (t) => {
  const previews = createPreviews()
  const fail = () => Promise.reject(new Error('the database is unavailable'))
  await rejectsWith(t, previews.get('a', NOW, WAIT_MS, fail), {
    message: 'the database is unavailable',
  })
  t.strictSame(await previews.get('a', NOW, WAIT_MS, async () => []), currentAt(NOW))
})

t.test('a preview waits while four others are computed, and displaces none of them', async (t) => {
  // Regression: the fifth computation displaced the first one, which continued, but no request got its result. Pages
  // that were reloaded therefore started computations without end, and the memory was used up.
  for (const end of ['resolve', 'reject'] as const) {
    const previews = createPreviews()
    const running: PromiseWithResolvers<readonly never[]>[] = []
    const compute = () => {
      const computation = Promise.withResolvers<readonly never[]>()
      running.push(computation)
      return computation.promise
    }
    const none = { preview: undefined, isComputing: true }
    for (const key of ['a', 'b', 'c', 'd', 'e', 'a', 'b', 'c', 'd', 'e']) {
      t.strictSame(await previews.get(key, NOW, 1, compute), none, key)
    }
    t.equal(running.length, 4, 'the fifth preview is not computed yet')
    const fifth = previews.get('e', NOW, WAIT_MS, async () => [])
    if (end === 'resolve') running[0]?.resolve([])
    else running[0]?.reject(new Error('the database is unavailable'))
    t.strictSame(await fifth, currentAt(NOW), 'the fifth preview is computed after the first one')
    const second = previews.get('b', NOW, WAIT_MS, compute)
    running[1]?.resolve([])
    t.strictSame(await second, currentAt(NOW))
    t.equal(running.length, 4, 'the second preview is computed once')
  }
})

t.test('the four previews that were computed last are cached', async (t) => {
  const previews = createPreviews()
  const running: PromiseWithResolvers<readonly never[]>[] = []
  const compute = () => {
    const computation = Promise.withResolvers<readonly never[]>()
    running.push(computation)
    return computation.promise
  }
  const keys = ['a', 'b', 'c', 'd']
  const early = keys.map((key) => previews.get(key, NOW, 1.1 * SLOW_MS, compute))
  // This request waits for the others. Its preview is therefore slow, too, although its computation is quick.
  const fifth = previews.get('e', NOW, WAIT_MS, async () => [])
  await Promise.all(early)
  for (const { resolve } of running) resolve([])
  await fifth
  for (const key of ['b', 'c', 'd', 'e']) {
    t.strictSame(await previews.get(key, NOW, 1, compute), currentAt(NOW), `${key} is cached`)
  }
  t.equal(running.length, 4)
  const later = new Date(NOW.getTime() + 120_000)
  await previews.get('a', later, 1, compute)
  t.equal(running.length, 5, 'the oldest preview was evicted')
  for (const key of ['f', 'g', 'h']) await previews.get(key, later, 1, compute)
  const outdated = { ...currentAt(NOW), isComputing: true }
  t.strictSame(await previews.get('b', later, 1, compute), outdated, 'b waits for the others')
  const waiting = previews.get('b', later, WAIT_MS, async () => [])
  running[4]?.resolve([])
  t.strictSame(await waiting, currentAt(later))
})

t.test('while an outdated preview is computed again, requests get the outdated one', async (t) => {
  // Only a slow preview is cached.
  const previews = createPreviews()
  const finish: ((messages: readonly never[]) => void)[] = []
  const compute = () => new Promise<readonly never[]>((resolve) => finish.push(resolve))
  await previews.get('a', NOW, 1.1 * SLOW_MS, compute)
  finish[0]?.([])
  t.strictSame(await previews.get('a', NOW, WAIT_MS, compute), currentAt(NOW), 'it is cached')
  t.equal(finish.length, 1)
  const later = new Date(NOW.getTime() + 120_000)
  const outdated = await previews.get('a', later, 1, compute)
  t.strictSame(outdated, { ...currentAt(NOW), isComputing: true })
  const waiting = previews.get('a', later, WAIT_MS, compute)
  t.equal(finish.length, 2, 'it is computed once')
  finish[1]?.([])
  t.strictSame(await waiting, currentAt(later))
})
