import t from 'tap'
import { formatDuration, secondsUntilLastCall } from '../../../backend/cli/import/forecast.ts'
import { createProgress, renderProgress } from '../../../backend/cli/import/progress.ts'
import { matches } from '../../fixtures/matches.ts'

t.test('the waiting time that the hourly limit causes is predicted', async (t) => {
  const nowMs = Date.parse('2026-11-21T10:15:00.000Z')
  const window = { limit: 600, remaining: 571, resetAtMs: nowMs + 1_800_000 }
  t.equal(secondsUntilLastCall(571, window, nowMs), 0)
  t.equal(secondsUntilLastCall(572, window, nowMs), 1800)
  t.equal(secondsUntilLastCall(571 + 600, window, nowMs), 1800)
  t.equal(secondsUntilLastCall(571 + 601, window, nowMs), 1800 + 3600)
  t.equal(secondsUntilLastCall(5059, window, nowMs), 1800 + 7 * 3600)
  const endedWindow = { ...window, resetAtMs: nowMs - 1 }
  t.equal(
    secondsUntilLastCall(572, endedWindow, nowMs),
    0,
    'not negative, even if the clock is ahead',
  )
})

t.test('durations are written in hours, minutes and seconds', async (t) => {
  t.equal(formatDuration(0.2), '1 s')
  t.equal(formatDuration(725), '12 min 5 s')
  t.equal(formatDuration(30_000), '8 h 20 min')
})

const recording = {
  ...{ label: 'Recording', total: 5032, done: 1258, elapsedSeconds: 10, minSecondsLeft: 0 },
  wait: undefined,
}

t.test('a line of progress shows the count, the rate and the remaining time', async (t) => {
  t.equal(
    renderProgress(recording),
    'Recording [######------------------]  1,258 of 5,032  126/s  30 s left',
  )
  matches(t, renderProgress({ ...recording, minSecondsLeft: 30_000 }), /8 h 20 min left$/)
  matches(
    t,
    renderProgress({ ...recording, wait: { reason: 'The limit', seconds: 725 } }),
    /^The limit, continues in 12 min 5 s; {2}Recording/,
  )
  t.equal(
    renderProgress({ ...recording, total: undefined, done: 200, elapsedSeconds: 0 }),
    'Recording  200',
  )
})

t.test(
  'on a terminal, progress is one line, which is redrawn and cut to the width of the terminal',
  async (t) => {
    const written: string[] = []
    const progress = createProgress({
      ...{ isTTY: true, columns: 20 },
      write: (text) => written.push(text),
    })
    progress.begin('Recording', 2)
    progress.advance()
    progress.note('A note.')
    progress.advance()
    progress.end()
    t.strictSame(written, ['\r\x1b[KA note.\n', '\r\x1b[KRecording [########', '\n'])
  },
)

// Regression: a terminal that reports a width of 0, as in some containers, got a new line at each redrawing.
t.test('if the terminal does not know its width, progress is cut to 79 characters', async (t) => {
  const written: string[] = []
  const progress = createProgress({ isTTY: true, columns: 0, write: (text) => written.push(text) })
  progress.begin('x'.repeat(100))
  progress.end()
  t.strictSame(written, [`\r\x1b[K${'x'.repeat(79)}`, '\n'])
})

t.test('in a log, progress has whole lines and no control characters', async (t) => {
  const written: string[] = []
  const progress = createProgress({ write: (text) => written.push(text) })
  progress.note('A note.')
  progress.begin('Reading')
  progress.advance(200)
  progress.end()
  matches(t, written, ['A note.\n', /^Reading {2}200.*\n$/])
  t.notMatch(written.join('').replaceAll('\n', ''), /\p{Cc}/u)
})
