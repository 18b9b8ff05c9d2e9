// Concurrent requests for the preview of reminders, and its cache.
import t from 'tap'
import { createPreviews } from '../../../backend/settings/reminders/previews.ts'
import { rejectsWith } from '../../fixtures/matches.ts'

const NOW = new Date('2026-11-21T10:15:00.000Z')

t.test(
  'a request during a computation shares its result, or gets none if the computation takes too long',
  async (t) => {
    const previews = createPreviews(20)
    const finish: ((messages: readonly never[]) => void)[] = []
    const compute = () => new Promise<readonly never[]>((resolve) => finish.push(resolve))
    const early = await Promise.all([
      previews.get('a', NOW, compute),
      previews.get('a', NOW, compute),
    ])
    t.strictSame(early, [undefined, undefined])
    t.equal(finish.length, 1, 'the preview is computed once')
    const waiting = previews.get('a', NOW, compute)
    finish[0]?.([])
    t.strictSame(await waiting, { messages: [], at: NOW })
    const other = previews.get('a', NOW, compute)
    finish[1]?.([])
    await other
    t.equal(finish.length, 2, 'a quick result is not cached')
  },
)

t.test('a failed computation is repeated at the next request', async (t) => {
  const previews = createPreviews()
  const fail = () => Promise.reject(new Error('the database is unavailable'))
  await rejectsWith(t, previews.get('a', NOW, fail), { message: 'the database is unavailable' })
  t.strictSame(await previews.get('a', NOW, async () => []), { messages: [], at: NOW })
})
