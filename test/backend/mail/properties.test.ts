// Properties of outgoing mail for any names and texts, and of inbound mail with random bytes.
import { readFile } from 'node:fs/promises'
import PostalMime from 'postal-mime'
import t from 'tap'
import { type Failure, readInboundMail } from '../../../backend/inbound-mail/inbound-mail.ts'
import { failureCauseOf, parseReply } from '../../../backend/mail/status-codes.ts'
import { fc } from '../../fixtures/properties.ts'
import { newMailer, sampleMail, sendNow } from '../../fixtures/reminders/mail.ts'
import { complaint, deliveryReport, reply } from '../../fixtures/servers/inbound.ts'

const ID = 'msg_01KDZ3CV3NSJPBXHTGA1R5EY8Q'

/** Parts of names and subjects that could end a header, begin another one, or add an address. */
const text = fc.string({
  unit: fc.constantFrom(
    ...['\r', '\n', '\r\n', ':', ' ', '\t', '"', '<', '>', '@', ',', ';', '\\', '=?', '?=', '\0'],
    ...['a', 'Bcc', 'é', '未', '🧾', '\u2028', '\u202e', '.'],
  ),
  maxLength: 40,
})

t.test('no name, subject or text can change who gets a mail, or add a header', async (t) => {
  const directory = `${t.testdir({})}/mail`
  const mailer = newMailer(t, undefined, { directory })
  const file = `${directory}/${ID}.eml`
  await fc.assert(
    fc.asyncProperty(text, text, text, async (fromName, subject, body) => {
      const unsubscribeUrl = 'https://receivables.io/mail/unsubscribe/x'
      await sendNow(mailer, { fromName, subject, text: body, html: body, unsubscribeUrl })
      const { headers, from, to } = await PostalMime.parse(await readFile(file))
      const names = new Set(headers.map(({ key }) => key))
      return (
        names.size === headers.length &&
        names.isSubsetOf(HEADERS) &&
        from?.address === 'reminders@mail.receivables.io' &&
        to?.length === 1 &&
        to[0]?.address === sampleMail().to
      )
    }),
    { numRuns: 300 },
  )
})

const HEADERS = new Set([
  'auto-submitted',
  'content-transfer-encoding',
  'content-type',
  'date',
  'from',
  'list-unsubscribe',
  'list-unsubscribe-post',
  'message-id',
  'mime-version',
  'subject',
  'to',
  'x-receivables-id',
])

const SAMPLES = [deliveryReport(), deliveryReport({ references: {} }), complaint(ID), reply(ID)]

/** Sample mails in which random bytes replace some ranges. */
const damaged = fc
  .tuple(
    fc.constantFrom(...SAMPLES),
    fc.array(fc.tuple(fc.nat(2000), fc.nat(300), fc.uint8Array({ maxLength: 60 })), {
      minLength: 1,
      maxLength: 6,
    }),
  )
  .map(([sample, cuts]) =>
    cuts.reduce(
      (raw, [at, length, bytes]) =>
        Buffer.concat([raw.subarray(0, at), bytes, raw.subarray(at + length)]),
      Buffer.from(sample),
    ),
  )

t.test('damaged inbound mail is classified, and its fields are bounded', async () => {
  await fc.assert(
    fc.asyncProperty(damaged, async (raw) => {
      const { content, references, sender } = await readInboundMail(raw)
      const isBounded = references.length <= 50 && (sender?.length ?? 0) <= 300
      if (content.kind !== 'bounce') return isBounded
      const isBoundedBounce = ({ bounce: { type, code, detail } }: Failure) =>
        /^(?:hard|soft)$/.test(type) && code.length < 20 && detail.length <= 300
      return isBounded && content.failures.every(isBoundedBounce)
    }),
    { numRuns: 500 },
  )
})

t.test('every rejection has a cause, and only a bad address is a hard bounce', async () => {
  const enhanced = fc
    .tuple(fc.constantFrom(4, 5), fc.nat(9), fc.nat(30))
    .map((parts) => parts.join('.'))
  const phase = fc.constantFrom('recipient', 'text')
  fc.assert(
    fc.property(fc.integer({ min: 400, max: 599 }), enhanced, phase, (status, code, when) => {
      const parsed = parseReply(`${status} ${code} anything`)
      if (parsed === undefined) return false
      const isBadAddress = /^\d\.(?:0\.0|1\.\d+|2\.1|4\.[14])$/.test(code)
      return failureCauseOf(parsed, when) !== 'hard' || (status >= 500 && isBadAddress)
    }),
  )
})
