/** During a flood of invented keys, look-ups of the client that sends them are rejected, and no others. */
import t from 'tap'
import { UnknownKeyLookUps } from '../../gateway/keys/unknown-keys.ts'

/** The maximum number of look-ups that wait to be sent. */
const WAITING_MAX = 2_000

t.test(
  'the client with the most look-ups loses the newest ones with its most frequent prefix',
  async (t) => {
    const { promise: isReleased, resolve: release } = Promise.withResolvers<void>()
    const lookUps = new UnknownKeyLookUps(async (digests) => {
      await isReleased
      return digests.map(() => 'unknown' as const)
    })
    const outcomes = new Map<string, string>()
    const settled: Promise<unknown>[] = []
    const lookUp = (digest: string, prefix: string, client: string) => {
      const outcome = lookUps.lookUp({ digest, prefix, client }).then(
        (result) => outcomes.set(digest, String(result)),
        ({ code }) => outcomes.set(digest, code),
      )
      settled.push(outcome)
    }
    for (let n = 0; lookUps.queuedLookUps < WAITING_MAX - 1; n++) {
      lookUp(`flood-${n}`, n % 10 === 0 ? 'rare' : 'frequent', 'flooder')
    }
    lookUp('last', 'frequent', 'flooder')
    lookUp('other', 'frequent', 'another client')
    lookUp('rare', 'rare', 'flooder')
    t.equal(lookUps.queuedLookUps, WAITING_MAX)
    release()
    await Promise.all(settled)
    t.equal(lookUps.queuedLookUps, 0)
    t.strictSame([outcomes.get('other'), outcomes.get('rare')], ['unknown', 'unknown'])
    const rejected = [...outcomes].filter(([, outcome]) => outcome === 'service_unavailable')
    t.equal(rejected.length, 2)
    t.ok(
      rejected.some(([digest]) => digest === 'last'),
      'the newest one with this prefix',
    )
  },
)
