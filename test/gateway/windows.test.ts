import t from 'tap'
import { WINDOW_MS } from '../../gateway/rate-limit/limiter.ts'
import { createLocalWindows } from '../../gateway/rate-limit/windows.ts'

const LIMIT = 600
const DAY_MS = 24 * 3_600_000

// Regression: a key that had reached its limit was rejected for 25 hours after the clock had been set back by a day.
t.test('a window ends within an hour even if the clock is set back', (t) => {
  let now = Date.UTC(2026, 10, 2)
  const windows = createLocalWindows(() => now)
  t.teardown(() => windows.close())
  windows.open('key_1', LIMIT).used = LIMIT
  now -= 5_000
  t.equal(
    windows.open('key_1', LIMIT).used,
    LIMIT,
    'a small correction of the clock changes nothing',
  )
  now -= DAY_MS
  t.equal(windows.find('key_1'), undefined)
  const { used, endsAt } = windows.open('key_1', LIMIT)
  t.strictSame([used, endsAt], [0, now + WINDOW_MS])
  t.end()
})

// Regression: the calls were added to the count of the store, which had already begun another window.
t.test(
  'calls of a window from before the clock was set back do not count in the next window',
  (t) => {
    let now = Date.UTC(2026, 10, 2)
    const windows = createLocalWindows(() => now)
    t.teardown(() => windows.close())
    Object.assign(windows.open('key_1', LIMIT), { used: LIMIT, unreported: LIMIT })
    now -= DAY_MS
    windows.set('key_1', 1, LIMIT, now + WINDOW_MS)
    const { used, unreported } = windows.open('key_1', LIMIT)
    t.strictSame([used, unreported], [1, 0])
    t.end()
  },
)

t.test('calls that were counted while the store was queried are added to its count', (t) => {
  const windows = createLocalWindows(() => Date.UTC(2026, 10, 2))
  t.teardown(() => windows.close())
  const window = windows.open('key_1', LIMIT)
  Object.assign(window, { used: 1, unreported: 1 })
  windows.set('key_1', 7, LIMIT, window.endsAt)
  const { used, unreported } = windows.open('key_1', LIMIT)
  t.strictSame([used, unreported], [8, 1])
  t.end()
})
