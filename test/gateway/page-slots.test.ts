import t from 'tap'
import { Abort, type Abortable } from '../../gateway/call/abort.ts'
import { PageSlots } from '../../gateway/pages/page-slots.ts'
import { rejectsWith } from '../fixtures/matches.ts'

/** Knows which work an abort would stop. */
class ObservedAbort extends Abort {
  work: Abortable | undefined

  override listen(work: Abortable): void {
    this.work = work
    super.listen(work)
  }

  override stopListening(): void {
    this.work = undefined
    super.stopListening()
  }
}

// Regression: the abort of a page that had waited in vain searched the queue once more.
t.test(
  'a page that gets no slot in time, or is aborted, no longer listens for an abort',
  async (t) => {
    const slots = new PageSlots(1, 0)
    await slots.acquire('203.0.113.7', new Abort())
    const late = new ObservedAbort()
    const waiting = slots.acquire('203.0.113.7', late)
    t.ok(late.work, 'while it waits, it can be aborted')
    await rejectsWith(t, waiting, { code: 'service_unavailable', headers: { 'retry-after': '1' } })
    t.equal(late.work, undefined)
    t.equal(slots.waitingPages, 0)

    const aborted = new ObservedAbort()
    const abandoned = slots.acquire('203.0.113.7', aborted)
    aborted.abort(new Error('the client has gone'))
    await rejectsWith(t, abandoned, /^the client has gone$/)
    t.equal(aborted.work, undefined)
    t.equal(slots.waitingPages, 0)
  },
)

t.test('a page that gets a slot no longer listens for an abort of its wait', async (t) => {
  const slots = new PageSlots(1, 60_000)
  const release = await slots.acquire('203.0.113.7', new Abort())
  const next = new ObservedAbort()
  const waiting = slots.acquire('203.0.113.7', next)
  release()
  await waiting
  t.equal(next.work, undefined)
})
