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

// Regression: one client that read large pages slowly, or requested pages that take seconds, could use all slots. No
// other client got a page then, and no mail was received.
t.test('a client may use half of the slots that other clients do not use', async (t) => {
  const slots = new PageSlots(8, 60_000)
  const acquire = (client: string, abort = new Abort()) => slots.acquire(client, abort)
  const [first] = await Promise.all(['a', 'a', 'a', 'a'].map((client) => acquire(client)))
  await Promise.all(['b', 'b', 'c', 'd'].map((client) => acquire(client)))
  t.equal(slots.waitingPages, 0)
  const aborts = [new Abort(), new Abort()]
  const waiting = [acquire('a', aborts[0]), acquire('b', aborts[1])]
  const ofAnother = acquire('e')
  t.equal(slots.waitingPages, 3)

  first?.()
  await ofAnother
  t.equal(slots.waitingPages, 2, 'a client without a slot precedes clients that use some')
  for (const abort of aborts) abort.abort(new Error('the test ends'))
  for (const each of waiting) await rejectsWith(t, each, /^the test ends$/)
})

t.test('one released slot can let the pages of two clients begin', async (t) => {
  const slots = new PageSlots(6, 60_000)
  const acquire = (client: string) => slots.acquire(client, new Abort())
  const [first, second] = await Promise.all(['a', 'a', 'a'].map(acquire))
  await Promise.all(['b', 'b'].map(acquire))
  first?.()
  const waiting = ['b', 'a'].map(acquire)
  t.equal(slots.waitingPages, 2, 'each client uses as many slots as are free')
  second?.()
  await Promise.all(waiting)
  t.equal(slots.waitingPages, 0)
})
