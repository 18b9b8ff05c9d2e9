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

// Regression: the newer computation was evicted, so the next request computed the preview once more.
t.test('a computation that fails after it was replaced does not evict the newer one', async (t) => {
  const previews = createPreviews()
  const running: PromiseWithResolvers<readonly never[]>[] = []
  const compute = () => {
    const computation = Promise.withResolvers<readonly never[]>()
    running.push(computation)
    return computation.promise
  }
  const first = previews.get('a', NOW, WAIT_MS, compute)
  // Four other previews displace the first one.
  for (const key of ['b', 'c', 'd', 'e']) await previews.get(key, NOW, 1, compute)
  await previews.get('a', NOW, 1, compute)
  running[0]?.reject(new Error('the database is unavailable'))
  await rejectsWith(t, first, { message: 'the database is unavailable' })
  await previews.get('a', NOW, 1, compute)
  t.equal(running.length, 6, 'the newer computation is shared')
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
