// The sender of reminders: a name and a logo, which appear in each mail and in previews.
import t from 'tap'
import { parseLogo } from '../../../backend/accounts/logo.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { startEngineWithUsers } from '../../fixtures/reminders/engine.ts'
import { chunk, JPEG, PNG } from '../../fixtures/reminders/images.ts'
import { createUserIn, logIn, MEMBER } from '../../fixtures/service/settings.ts'

const PATH = '/settings/sender'
const LOGO_PATH = `${PATH}/logo`
const TEST_MAIL_PATH = '/settings/wording/friendly-en/test'
const encoded = (content: Buffer) => ({ logo: content.toString('base64') })

t.test('a reminder has the sender’s name and the logo, which is part of the mail', async (t) => {
  const { engine, logInAdmin, ada } = await startEngineWithUsers(t)
  matches(t, await ada.send('PUT', PATH, { name: ' Jansen Billing ' }), {
    status: 200,
    json: { object: 'reminder_sender', name: 'Jansen Billing', is_default: false, logo: null },
  })
  matches(t, (await ada.send('POST', LOGO_PATH, encoded(PNG))).json['logo'], {
    ...{ media_type: 'image/png', width: 320, height: 80, bytes: PNG.length },
  })
  await engine.createInvoice('2026-11-20', { number: 'R-7' })
  const [message] = await engine.planAndSendAt('2026-11-24T10:00:00.000Z')
  const [sent] = engine.smtp.mails
  matches(t, sent?.mail.from, {
    name: 'Jansen Billing',
    address: 'reminders@mail.receivables.io',
  })
  t.equal(sent?.mail.subject, 'A friendly reminder: invoice R-7 – Jansen Billing')
  matches(t, sent?.mail.text, containing('Jansen Billing'))
  t.notMatch(sent?.mail.text, /Acme/)
  matches(t, sent?.mail.html, containing('<img src="cid:logo@receivables" alt="Jansen Billing"'))
  t.notMatch(sent?.mail.html, /<img[^>]*https?:/, 'nothing is loaded from elsewhere')
  const [logo] = sent?.mail.attachments ?? []
  matches(t, logo, {
    mimeType: 'image/png',
    disposition: 'inline',
    contentId: '<logo@receivables>',
  })
  t.ok(logo?.content instanceof ArrayBuffer && Buffer.from(logo.content).equals(PNG))
  const shown = await (await logInAdmin()).page(`/settings/messages/${message?.id}/html`)
  matches(t, shown.text, containing(`<img src="data:image/png;base64,${PNG.toString('base64')}"`))
})

t.test(
  'the test mail and the preview also show the name and the logo; removal restores the default',
  async (t) => {
    const { engine, backend, ada } = await startEngineWithUsers(t)
    await createUserIn(backend, engine.testAccount.accountId, 'tess@acme.nl', 'admin')
    const tess = await logIn(backend, 'tess@acme.nl')
    await tess.send('PUT', PATH, { name: 'Jansen Billing' })
    await tess.send('POST', LOGO_PATH, encoded(JPEG))
    const { object, id, stage, language, is_default, variables, ...wording } = (
      await tess.get('/settings/wording/friendly-en')
    ).json
    await tess.send('POST', TEST_MAIL_PATH, wording)
    await engine.service.sendNotices()
    const [mail] = engine.smtp.mails
    matches(t, mail?.mail.from, { name: 'Jansen Billing' })
    matches(t, mail?.mail.attachments[0], { mimeType: 'image/jpeg' })
    const preview = await ada.page('/settings/wording/friendly-en/preview')
    matches(t, preview.text, containing('src="data:image/jpeg;base64,'))
    matches(t, preview.headers.get('content-security-policy'), /img-src data:; sandbox/)
    t.equal((await ada.submit(`${LOGO_PATH}/remove`, {})).status, 303)
    matches(
      t,
      (await ada.page(PATH)).text,
      containing('Logo removed. Reminders show your name instead.'),
    )
    t.equal((await ada.submit(PATH, { name: '' })).status, 303)
    t.strictSame((await ada.get(PATH)).json, {
      object: 'reminder_sender',
      name: 'Acme Ltd',
      is_default: true,
      logo: null,
    })
    t.equal((await ada.get(LOGO_PATH)).status, 404)
    const plain = await ada.page('/settings/wording/friendly-en/preview')
    matches(t, plain.text, containing('Acme Ltd</p>'))
    t.notMatch(plain.text, /<img/)
    const rows = await backend.database.read.selectFrom('account_logos').select('id').execute()
    t.strictSame(rows, [], 'no message uses the logo, so it is deleted')
    t.strictSame(await engine.service.auditActions('account.sender'), [
      'account.sender_changed',
      'account.sender_changed',
    ])
  },
)

t.test(
  'a name cannot add a header, imitate an address, or contain invisible characters',
  async (t) => {
    const { engine, ada } = await startEngineWithUsers(t)
    for (const name of [
      'Acme\r\nBcc: x@evil.nl',
      'Acme <ceo@bank.nl>',
      'ceo@bank.nl',
      'Acme" <x',
      'Acme \u202eknab',
      'Ac\u200bme',
      '\u200d',
      'Ac\u3164me',
      'ceo\uff20bank.nl',
      'x'.repeat(101),
    ]) {
      const { status, json } = await ada.send('PUT', PATH, { name })
      t.equal(status, 422, JSON.stringify(name))
      matches(t, json['errors'], [{ pointer: '/name' }])
    }
    const form = await ada.submit(PATH, { name: '"><script>' })
    matches(t, form, { status: 422, text: /id="name-fault">Name must be a name without @/ })
    matches(t, form.text, containing('value="&quot;&gt;&lt;script&gt;"'))
    // Regression: the form accepted 200 characters, and the name was then rejected.
    matches(t, form.text, containing('maxlength="100"'))
    t.equal((await ada.send('PUT', PATH, { name: '❤\ufe0f می\u200cخواهم' })).status, 200)
    t.equal((await ada.send('PUT', PATH, { name: "Zoë & 'Söhne', 北斗; Ltd." })).status, 200)
    await engine.createInvoice('2026-11-20')
    await engine.planAndSendAt('2026-11-24T10:00:00.000Z')
    matches(t, engine.smtp.mails[0]?.mail.from, { name: "Zoë & 'Söhne', 北斗; Ltd." })
    matches(t, engine.smtp.mails[0]?.mail.html, containing('Zoë &amp; &#39;Söhne&#39;, 北斗; Ltd.'))
  },
)

t.test(
  'an image is recognized by its content; other files and files that are too large are rejected',
  async (t) => {
    const { ada } = await startEngineWithUsers(t)
    const rejectionOf = async (content: Buffer) => {
      const { status, json } = await ada.send('POST', LOGO_PATH, encoded(content))
      t.equal(status, 422)
      const [error] = json['errors'] as { pointer: string; detail: string }[]
      return `${error?.pointer} ${error?.detail}`
    }
    const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>')
    matches(t, await rejectionOf(svg), /^\/logo .*PNG or JPEG.*SVG, are not accepted/)
    matches(t, await rejectionOf(Buffer.from('GIF89a')), /PNG or JPEG/)
    matches(t, await rejectionOf(Buffer.alloc(0)), /is required/)
    matches(t, await rejectionOf(Buffer.concat([PNG, svg])), /its end is missing/)
    matches(t, await rejectionOf(PNG.subarray(0, 40)), /its end is missing/)
    matches(t, await rejectionOf(Buffer.concat([PNG, Buffer.alloc(65_536)])), /at most 64 KiB/)
    matches(t, await rejectionOf(Buffer.from('ffd8ffd9', 'hex')), /damaged/)
    const wide = Buffer.from(PNG)
    wide.writeUInt32BE(2001, 16)
    matches(t, await rejectionOf(wide), /16 to 2000 pixels wide and high; it is 2001 × 80/)
    const flat = Buffer.from(PNG)
    flat.writeUInt32BE(15, 20)
    matches(t, await rejectionOf(flat), /it is 320 × 15/)
    matches(t, (await ada.get(PATH)).json, { logo: null })
  },
)

// Regression: the location of a photograph, its author and comments were mailed to every customer.
t.test('metadata is removed from a logo before it is stored', async (t) => {
  const { ada } = await startEngineWithUsers(t)
  const { content: plain } = parseLogo(PNG)
  t.strictSame(plain, PNG, 'an image without metadata does not change')
  const at = PNG.length - 12
  const notes = ['tEXt', 'zTXt', 'iTXt', 'eXIf', 'tIME', 'prVt'].map((type) =>
    chunk(type, Buffer.from('Author\0CANARY')),
  )
  const noted = Buffer.concat([PNG.subarray(0, at), ...notes, PNG.subarray(at)])
  t.strictSame(parseLogo(noted).content, PNG)

  const segment = (marker: number, data: string) => {
    const head = Buffer.from([0xff, marker, 0, data.length + 2])
    return Buffer.concat([head, Buffer.from(data, 'latin1')])
  }
  const scan = Buffer.concat([segment(0xda, 'scan'), Buffer.from('01ff00ffd002', 'hex')])
  const [start, rest] = [JPEG.subarray(0, 2), JPEG.subarray(2, -2)]
  const end = JPEG.subarray(-2)
  const clean = Buffer.concat([start, rest, segment(0xee, 'Adobe'), scan, scan, end])
  t.strictSame(parseLogo(clean).content, clean)
  const exif = segment(0xe1, 'http://ns.adobe.com/xap/1.0/\0CANARY')
  const comments = [exif, segment(0xed, 'CANARY'), segment(0xfe, 'CANARY')]
  const dirty = Buffer.concat([
    ...[start, ...comments, rest, segment(0xee, 'Adobe'), scan, segment(0xfe, 'CANARY'), scan, end],
    Buffer.from('CANARYffd9'),
    end,
  ])
  t.strictSame(parseLogo(dirty).content, clean, 'data after the end of the image is also removed')
  // Regression: a picture with fill bytes, which may precede a marker, was rejected as damaged.
  const fill = Buffer.from('ffffff', 'hex')
  const filled = [start, fill, ...comments, fill, rest, segment(0xee, 'Adobe'), scan, scan, end]
  t.strictSame(parseLogo(Buffer.concat(filled)).content, clean)
  const turned = segment(
    0xe1,
    'Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0',
  )
  const rotated = Buffer.concat([start, turned, rest, end])
  const rejected = await ada.send('POST', LOGO_PATH, encoded(rotated))
  matches(t, rejected, { status: 422, json: { errors: [{ pointer: '/logo' }] } })
  matches(t, rejected.text, /save the image in its final orientation/)
})

t.test('a form uploads the logo, which is served as an image and as nothing else', async (t) => {
  const { backend, ada } = await startEngineWithUsers(t)
  const upload = async (csrf: string, content: Buffer<ArrayBuffer>) => {
    const form = new FormData()
    form.set('csrf_token', csrf)
    form.set('logo', new File([content], 'logo.html', { type: 'text/html' }))
    const sent = new Response(form)
    return backend.request('POST', LOGO_PATH, {
      headers: {
        ...{ accept: 'text/html', cookie: ada.cookie },
        'content-type': sent.headers.get('content-type') ?? '',
      },
      body: Buffer.from(await sent.arrayBuffer()),
    })
  }
  t.equal((await upload('x', PNG)).status, 403)
  const faulty = await upload(ada.csrf, Buffer.from('<svg>'))
  matches(t, faulty, {
    status: 422,
    text: /id="logo-fault">Logo must be a PNG or JPEG/,
  })
  t.notMatch(faulty.headers.get('content-security-policy'), /sandbox/, 'the forms of the page work')
  t.equal((await upload(ada.csrf, PNG)).status, 303)
  const { status, headers } = await ada.page(LOGO_PATH)
  t.equal(status, 200)
  t.equal(headers.get('content-type'), 'image/png')
  t.equal(headers.get('x-content-type-options'), 'nosniff')
  t.equal(
    headers.get('content-security-policy'),
    "default-src 'none'; sandbox; frame-ancestors 'none'",
  )
})

t.test(
  'reminders that wait for approval are updated; approved reminders are sent as approved',
  async (t) => {
    const { engine, backend, logInAdmin, ada } = await startEngineWithUsers(t)
    await ada.send('POST', LOGO_PATH, encoded(PNG))
    await engine.createInvoice('2026-11-02', { number: 'R-7' })
    for (const day of ['05', '12', '23']) await engine.planAndSendAt(`2026-11-${day}T10:00:00.000Z`)
    const approval = async () => {
      const { data } = (await (await logInAdmin()).get('/settings/approvals')).json
      const [first] = data as { id: string; seen: string; subject: string }[]
      if (first === undefined) throw new Error('nothing waits for approval')
      return first
    }
    const before = await approval()
    backend.now = new Date('2026-11-23T10:01:00.000Z')
    await (await logInAdmin()).send('PUT', PATH, { name: 'Jansen Billing' })
    await engine.send()
    const renamed = await approval()
    t.equal(renamed.id, before.id, 'the reminder did not lapse')
    t.not(renamed.seen, before.seen)
    matches(t, renamed.subject, / – Jansen Billing$/)
    await (await logInAdmin()).send('POST', LOGO_PATH, encoded(JPEG))
    await engine.send()
    const current = await approval()
    t.not(current.seen, renamed.seen, 'the approval includes the logo')
    const decide = async (seen: string) =>
      (await logInAdmin()).send('POST', `/settings/approvals/${before.id}/approve`, { seen })
    matches(t, await decide(before.seen), { status: 409, json: { code: 'approval_outdated' } })
    const page = await (await logInAdmin()).page(`/settings/approvals/${before.id}`)
    matches(t, page.text, /<dt>From<\/dt><dd translate="no">Jansen Billing</)
    t.equal((await decide(current.seen)).status, 200)
    await (await logInAdmin()).send('PUT', PATH, { name: 'Somebody Else' })
    await (await logInAdmin()).send('POST', `${LOGO_PATH}/remove`)
    await engine.send('2026-11-23T10:05:00.000Z')
    const last = engine.smtp.mails.at(-1)?.mail
    matches(t, last?.from, { name: 'Jansen Billing' })
    matches(t, last?.attachments[0], { mimeType: 'image/jpeg' })
  },
)

t.test(
  'Members only see the sender, accounts have separate senders, and changes need a CSRF token',
  async (t) => {
    const { engine, backend, ada } = await startEngineWithUsers(t)
    await ada.send('POST', LOGO_PATH, encoded(PNG))
    const mia = await logIn(backend, MEMBER)
    const page = await mia.page(PATH)
    matches(t, page, { status: 200, text: /<input id="name"[^>]* disabled/ })
    t.notMatch(page.text, /<button[^>]*>(?:Save|Remove)/)
    t.equal((await mia.page(LOGO_PATH)).status, 200)
    const other = await backend.createAccount({ name: 'Other' })
    await createUserIn(backend, other.id, 'eve@other.nl', 'admin')
    const eve = await logIn(backend, 'eve@other.nl')
    t.equal((await eve.page(LOGO_PATH)).status, 404)
    for (const [path, fields] of [
      [PATH, { name: 'X' }],
      [LOGO_PATH, encoded(PNG)],
      [`${LOGO_PATH}/remove`, {}],
    ] as const) {
      t.equal((await mia.submit(path, fields)).status, 403, path)
      t.equal((await ada.submit(path, { ...fields, csrf_token: 'x' })).status, 403, path)
      t.equal((await eve.submit(path, fields)).status, 303, path)
    }
    matches(t, (await ada.get(PATH)).json, { name: 'Acme Ltd', logo: { width: 320 } })
    t.strictSame(await engine.service.auditActions('account.'), [
      'account.created',
      'account.logo_changed',
    ])
  },
)
