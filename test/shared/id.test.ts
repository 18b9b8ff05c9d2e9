import t from 'tap'
import { incrementBase32 } from 'ulid'
import { createId } from '../../shared/contract/id.ts'

t.test(
  'ids sort in the order of their creation, and none can be derived from another',
  async (t) => {
    // Regression: of several ids created in the same millisecond, each was the previous one plus one. A customer could
    // therefore guess the ids of reminders to other customers, and forge their bounces.
    const ids = Array.from({ length: 10_000 }, () => createId('msg'))
    t.strictSame(ids.toSorted(), ids)
    t.equal(new Set(ids).size, ids.length)
    const ulids = ids.map((id) => id.slice('msg_'.length))
    t.ok(ulids.every((ulid) => /^[0-9A-HJKMNP-TV-Z]{26}$/.test(ulid)))
    const ends = ulids.map((ulid) => ulid.slice(-10))
    t.equal(new Set(ends).size, ends.length)
    const derived = ends.filter((end, at) => at > 0 && end === incrementBase32(ends[at - 1] ?? ''))
    t.strictSame(derived, [])
  },
)
