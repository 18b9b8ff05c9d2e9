import t from 'tap'
import { holdUntil, nextAttemptAt } from '../../../backend/webhooks/retry-schedule.ts'
import type { AttemptResult } from '../../../backend/webhooks/sender.ts'

const NOW = new Date('2026-11-21T10:15:00.000Z')

function failure(statusCode: number | null, retryAfter?: string): AttemptResult {
  return {
    succeeded: false,
    statusCode,
    error: null,
    responseHeaders: retryAfter === undefined ? {} : { 'retry-after': retryAfter },
    responseBody: '',
    durationMs: 1,
  }
}

const secondsTo = (at: Date | undefined) => at && (at.getTime() - NOW.getTime()) / 1000

t.test(
  'each delay varies by up to a tenth, and all delays together last about three days',
  async (t) => {
    const delays = (random: number) =>
      Array.from({ length: 10 }, (_, n) =>
        secondsTo(nextAttemptAt(n + 1, failure(500), NOW, random)),
      )
    t.strictSame(delays(0.5), [
      5,
      300,
      1800,
      7200,
      18_000,
      36_000,
      50_400,
      72_000,
      86_400,
      undefined,
    ])
    t.equal(delays(0)[1], 270)
    t.equal(delays(1)[1], 330)
    const total = delays(0.5).reduce<number>((sum, delay) => sum + (delay ?? 0), 0)
    t.equal(Math.round(total / 3600), 76)
  },
)

t.test(
  'Retry-After, in seconds or as a date, can only prolong a delay, up to one day',
  async (t) => {
    const cases: [text: string, seconds: number][] = [
      ['120', 120],
      ['Sat, 21 Nov 2026 10:25:00 GMT', 600],
      ['1', 5],
      ['0', 5],
      ['Sat, 21 Nov 2026 10:00:00 GMT', 5],
      ['-5', 5],
      ['soon', 5],
      ['', 5],
      ['999999999', 86_400],
      ['9'.repeat(400), 86_400],
    ]
    for (const [text, seconds] of cases) {
      t.equal(secondsTo(nextAttemptAt(1, failure(500, text), NOW, 0.5)), seconds, text)
    }
  },
)

t.test('all deliveries to an overloaded receiver are delayed', async (t) => {
  for (const status of [429, 502, 503, 504]) {
    t.equal(secondsTo(holdUntil(failure(status), NOW)), 5)
    t.equal(secondsTo(holdUntil(failure(status, '60'), NOW)), 60)
  }
  for (const status of [null, 400, 404, 500])
    t.equal(holdUntil(failure(status, '60'), NOW), undefined)
})
