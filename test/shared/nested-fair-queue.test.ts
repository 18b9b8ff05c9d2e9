/** In a nested fair queue, groups take turns, and so do the flows of each group. */
import t from 'tap'
import { NestedFairQueue } from '../../shared/process/nested-fair-queue.ts'

/** Returns a queue with these numbers of items, by flow. The name of a flow begins with its group. */
function queueOf(counts: Readonly<Record<string, number>>): NestedFairQueue<string> {
  const queue = new NestedFairQueue<string>()
  for (const [flow, count] of Object.entries(counts)) {
    for (let n = 0; n < count; n++) queue.push(flow.charAt(0), flow, flow)
  }
  return queue
}

function shiftAll(queue: NestedFairQueue<string>): string[] {
  const items: string[] = []
  for (let item = queue.shift(); item !== undefined; item = queue.shift()) items.push(item)
  return items
}

t.test('a group with many flows gets no more turns than a group with one', async (t) => {
  const queue = queueOf({ a1: 2, a2: 2, a3: 1, b1: 2 })
  t.equal(queue.length, 7)
  t.strictSame(shiftAll(queue), ['a1', 'b1', 'a2', 'b1', 'a3', 'a1', 'a2'])
  t.equal(queue.length, 0)
})

t.test('items that are removed get no turn', async (t) => {
  const queue = queueOf({ a1: 2, a2: 1, b1: 1, c1: 1 })
  queue.retain((item) => item !== 'a1' && item !== 'b1')
  t.equal(queue.length, 2)
  t.equal(queue.countAhead('b', 'b1'), 2)
  t.strictSame(shiftAll(queue), ['a2', 'c1'])
})

t.test('before the first item of a group, each other group is served once', async (t) => {
  const queue = queueOf({ a1: 9, a2: 9, a3: 9, b1: 9 })
  t.equal(queue.countAhead('c', 'c1'), 2)
  queue.push('c', 'c1', 'new')
  t.equal(shiftAll(queue).indexOf('new'), 2)
})

t.test('at most as many items as counted are served before a new one', async (t) => {
  const counts = [0, 1, 2, 5]
  const wrong: object[] = []
  for (const a1 of counts) {
    for (const a2 of counts) {
      for (const b1 of counts) {
        for (const b2 of counts) {
          const queue = queueOf({ a1, a2, b1, b2 })
          // The turns of the groups and flows then do not follow the order in which they were added.
          queue.shift()
          const counted = queue.countAhead('a', 'a1')
          queue.push('a', 'a1', 'new')
          const served = shiftAll(queue).indexOf('new')
          if (served > counted) wrong.push({ a1, a2, b1, b2, counted, served })
        }
      }
    }
  }
  t.strictSame(wrong, [])
})
