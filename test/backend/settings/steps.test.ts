// An action on many records is split into steps that end before a gateway's timeout.
import t from 'tap'
import { startTimeLimit } from '../../../backend/settings/shell/page-request.ts'

const REQUESTED_AT = new Date('2026-11-21T10:15:00.000Z')

/** Returns how many milliseconds the changes of a step may take after reading has taken `readingMs`. */
function changingMsAfter(readingMs: number): number {
  let ms = REQUESTED_AT.getTime() + readingMs
  const isStepOver = startTimeLimit(() => new Date(ms), REQUESTED_AT)
  const beganAtMs = ms
  while (!isStepOver()) ms += 100
  return ms - beganAtMs
}

t.test('a step includes the time for reading, but always leaves time for changes', async (t) => {
  // Regression: the import of a large file on a busy machine ended with 504, because reading took longer than expected.
  t.equal(changingMsAfter(0), 5100)
  t.equal(changingMsAfter(3000), 2100)
  t.equal(changingMsAfter(20_000), 1100)
})
