/**
 * Bytes that `gateway/http1` accepts are sent to Node, and to nginx, HAProxy and Go if they are installed. Each must
 * reject the bytes, or read requests with the same method, target, host and body. The inputs are the cases of the
 * corpus, with and without random changes. `SEED` selects other changes, and `DIFFERENTIAL_CASES` the number of inputs
 * (100,000 in a long run).
 */
import t from 'tap'
import { SEED } from '../fixtures/properties.ts'
import { CORPUS } from '../gateway/fixtures/corpus/index.ts'
import { disagreementReason } from './fixtures/disagreements.ts'
import { mutate, Random } from './fixtures/mutate.ts'
import { byteByByte, type ReadRequest, readRequests } from './fixtures/our-reading.ts'
import { type Peer, startPeers } from './fixtures/peers.ts'

const cases = Number(process.env['DIFFERENTIAL_CASES'] ?? 3_000)
const WORKERS = 8
/** The maximum number of disagreements that a failure shows. */
const REPORTED_MAX = 20

const KEY = 'rcv_7Qd4xK2m_'.padEnd(62, '0')
const seeds = Object.values(CORPUS)
  .flat()
  .map(([, , bytes]) => bytes.replaceAll('{KEY}', KEY))
  .filter((bytes) => bytes.length < 4_000)

t.setTimeout(60_000 + 20 * cases)

interface Disagreement {
  readonly peer: string
  readonly bytes: string
  readonly ours: ReadRequest | undefined
  readonly theirs: ReadRequest | undefined
}

/** Finds the first request that the peer reads differently. A peer may reject requests that we accept. */
async function compare(bytes: Buffer, ours: readonly ReadRequest[], peer: Peer) {
  const theirs = await peer.read(bytes, ours.length)
  const differing = ours.findIndex((request, index) => {
    const other = theirs[index]
    return other !== undefined && JSON.stringify(other) !== JSON.stringify(request)
  })
  if (differing < 0)
    return { agreed: Math.min(ours.length, theirs.length), disagreement: undefined }
  const text = bytes.toString('latin1')
  const disagreement = {
    peer: peer.name,
    bytes: text,
    ours: ours[differing],
    theirs: theirs[differing],
  }
  return { agreed: differing, disagreement }
}

t.test(
  'from bytes that the gateway accepts, other servers read the same requests, or reject them',
  async (t) => {
    const { peers, missing } = await startPeers(t)
    for (const name of missing) t.comment(`${name} is not compared, because it is not installed`)
    t.comment(`seed ${SEED}, ${cases} cases`)
    const random = new Random(SEED)
    const found: Disagreement[] = []
    const reasons = new Map<string, number>()
    const agreed = new Map(peers.map(({ name }) => [name, 0]))
    let accepted = 0

    async function tryOne(text: string): Promise<void> {
      const bytes = Buffer.from(text, 'latin1')
      const ours = readRequests([bytes])
      const bytewise = readRequests(byteByByte(bytes))
      if (JSON.stringify(ours) !== JSON.stringify(bytewise)) {
        found.push({ peer: 'byte by byte', bytes: text, ours: ours.requests[0], theirs: undefined })
      }
      if (ours.requests.length === 0) return
      accepted++
      for (const peer of peers) {
        const { agreed: count, disagreement } = await compare(bytes, ours.requests, peer)
        agreed.set(peer.name, (agreed.get(peer.name) ?? 0) + count)
        if (disagreement === undefined) continue
        const reason = disagreementReason(disagreement)
        if (reason === undefined) found.push(disagreement)
        else reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
      }
    }

    let tried = 0
    const worker = async () => {
      while (tried < cases) {
        const text = random.pick(seeds, '')
        await tryOne(tried++ < seeds.length ? (seeds[tried - 1] ?? '') : mutate(text, random))
      }
    }
    await Promise.all(Array.from({ length: WORKERS }, worker))

    t.comment(
      `${accepted} of ${tried} accepted; agreed: ${JSON.stringify(Object.fromEntries(agreed))}`,
    )
    for (const [reason, count] of reasons) t.comment(`${count} times: ${reason}`)
    t.strictSame(found.slice(0, REPORTED_MAX), [])
    t.ok(accepted > cases / 50, `${accepted} cases were accepted`)
    for (const [name, count] of agreed)
      t.ok(count > accepted / 2, `${name} read ${count} requests as the gateway does`)
  },
)
