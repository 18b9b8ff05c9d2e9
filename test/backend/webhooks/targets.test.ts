import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { isGlobalUnicast } from '../../../backend/webhooks/addresses.ts'
import { createSender, type Sender } from '../../../backend/webhooks/sender.ts'
import { parseTargetUrl } from '../../../backend/webhooks/target-url.ts'
import { matches } from '../../fixtures/matches.ts'
import { startDns } from '../../fixtures/servers/dns.ts'
import { listen } from '../../fixtures/servers/listen.ts'
import { startReceiver } from '../../fixtures/servers/receiver.ts'
import { until } from '../../fixtures/service/until.ts'

/** Addresses that can lead to this machine or to a network that is not public. */
const INTERNAL_ADDRESSES = [
  ...['0.0.0.0', '0.1.2.3', '10.0.0.1', '10.255.255.255', '100.64.0.1', '100.127.255.255'],
  ...['127.0.0.1', '127.0.0.53', '127.1.2.3', '127.255.255.255', '169.254.0.1', '169.254.169.254'],
  ...['169.254.170.2', '172.16.0.1', '172.31.255.255', '192.0.0.1', '192.0.0.192', '192.0.2.1'],
  ...['192.31.196.1', '192.52.193.1', '192.88.99.1', '192.168.0.1', '192.168.255.255'],
  ...['192.175.48.1', '198.18.0.1', '198.19.255.255', '198.51.100.1', '203.0.113.1', '224.0.0.1'],
  ...['239.255.255.250', '240.0.0.1', '255.255.255.254', '255.255.255.255', '::', '::1', '::2'],
  ...['::127.0.0.1', '::169.254.169.254', '::ffff:127.0.0.1', '::ffff:7f00:1', '::ffff:10.0.0.1'],
  ...['::ffff:169.254.169.254', '::ffff:0:127.0.0.1', '64:ff9b::127.0.0.1', '64:ff9b::a9fe:a9fe'],
  ...['64:ff9b:1::127.0.0.1', '64:ff9b:1::a00:1', '100::1', '2001::1', '2001:0:7f00:1::'],
  ...['2001:2::1', '2001:10::1', '2001:20::1', '2001:db8::1', '2002:7f00:1::', '2002:a00:1::1'],
  ...['2002:a9fe:a9fe::', '2620:4f:8000::1', '3fff::1', '5f00::1', 'fc00::1', 'fd00::1'],
  ...['fd00:ec2::254', 'fd12:3456:789a::1', 'fe80::1', 'fe80::7f00:1', 'febf::1', 'fec0::1'],
  ...['ff02::1', 'ff05::2', 'ff0e::1', '1fff::1', '4000::1'],
]

/** Hosts of URLs that at least some parsers understand as an internal address. */
const INTERNAL_HOSTS = [
  ...['localhost', 'LOCALHOST', 'localhost.', 'a.localhost', 'foo.localhost.', '127.1', '127.0.1'],
  ...['2130706433', '0x7f000001', '0x7f.0.0.1', '0x7f.1', '017700000001', '0177.0.0.1', '0177.1'],
  ...[
    '0x7F.0x0.0x0.0x1',
    '00000177.1',
    '127.0.0.1.',
    '127.000.000.001',
    '①②⑦.⓪.⓪.①',
    '１２７.0.0.1',
  ],
  ...['127。0。0。1', '%31%32%37.0.0.1', '0', '0.0.0.0', '0x0', '2852039166', '0xa9fea9fe'],
  ...[
    '0251.0376.0251.0376',
    '169.254.43518',
    '[::]',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]',
  ],
  ...['[::ffff:7f00:1]', '[::127.0.0.1]', '[64:ff9b::127.0.0.1]', '[64:ff9b:1::7f00:1]'],
  ...['[2002:7f00:1::]', '[fd00:ec2::254]', '[fe80::1]', '[::ffff:a9fe:a9fe]', '[2001::7f00:1]'],
  ...['10.0.0.1', '10.1', '192.168.1', '172.16.1', '100.64.0.1', '169.254.169.254'],
]

t.test(
  'the sender does not connect to an internal address in any spelling, even if such a URL was saved',
  async (t) => {
    const listener = await startListener(t)
    const sender = createSender({ privateTargetPolicy: 'refuse', attemptMsMax: 3000 })
    t.teardown(() => sender.close())
    const hosts = [
      ...INTERNAL_HOSTS,
      ...INTERNAL_ADDRESSES.map((address) => (address.includes(':') ? `[${address}]` : address)),
    ]
    t.ok(hosts.length > 120)
    for (const host of hosts) {
      for (const scheme of ['https', 'http']) {
        const url = `${scheme}://${host}:${listener.port}/`
        // Some of these hosts are not valid in a URL.
        if (!URL.canParse(url)) continue
        const result = await sender.send({ url, headers: {}, body: Buffer.from('{}') })
        t.equal(result.error, 'target_not_allowed', url)
      }
      matches(t, parseTargetUrl(`https://${host}/`, 'refuse'), { error: /./ }, `https://${host}/`)
    }
    t.equal(listener.connections(), 0)
  },
)

t.test('the sender does not connect to a name that resolves to an internal address', async (t) => {
  const listener = await startListener(t)
  const zone = new Map(INTERNAL_ADDRESSES.map((address, n) => [`n${n}.attacker.example`, address]))
  const dns = await startDns(t, (name) => {
    const address = zone.get(name)
    if (address !== undefined) return [address]
    // These names also have a public address.
    if (name === 'mixed.attacker.example') return ['93.184.215.14', '127.0.0.1']
    if (name === 'mixed-families.attacker.example') return ['93.184.215.14', '::1']
    if (name === 'mixed-mapped.attacker.example') return ['93.184.215.14', '::ffff:127.0.0.1']
    return []
  })
  const sender = createSender({
    privateTargetPolicy: 'refuse',
    attemptMsMax: 3000,
    dnsServers: [dns.server],
  })
  t.teardown(() => sender.close())
  const names = [...zone.keys(), ...['mixed', 'mixed-families', 'mixed-mapped'].map(ofAttacker)]
  for (const name of names) {
    for (const scheme of ['https', 'http']) {
      const url = `${scheme}://${name}:${listener.port}/`
      const result = await sender.send({ url, headers: {}, body: Buffer.from('{}') })
      t.equal(result.error, 'target_not_allowed', `${url} is ${zone.get(name) ?? 'mixed'}`)
    }
  }
  const unknown = { url: 'https://none.example/', headers: {}, body: Buffer.from('{}') }
  t.equal((await sender.send(unknown)).error, 'dns_failed')
  t.equal(listener.connections(), 0)
})

t.test(
  'a name is resolved once per connection, so that its address cannot change after the check',
  async (t) => {
    const listener = await startListener(t)
    const dns = await startDns(t, (_name, requested) => [
      requested === 0 ? '93.184.215.14' : '127.0.0.1',
    ])
    const options = { privateTargetPolicy: 'refuse', dnsServers: [dns.server] } as const
    const firstSender = createSender({ ...options, attemptMsMax: 300 })
    const secondSender = createSender(options)
    t.teardown(() => Promise.all([firstSender.close(), secondSender.close()]))
    const sendWith = (sender: Sender, n: number) =>
      sender.send({
        url: `https://rebind${n}.attacker.example:${listener.port}/`,
        headers: {},
        body: Buffer.from('{}'),
      })
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, n) => sendWith(firstSender, n)),
    )
    for (const { error } of results) {
      t.not(error, 'target_not_allowed', 'the first look-up was used')
      t.not(error, null)
    }
    // Each name caused one query for A records and one for AAAA records, so nothing was resolved again after the check.
    t.equal(dns.queriedNames.length, 40)
    for (const { error } of await Promise.all(
      Array.from({ length: 20 }, (_, n) => sendWith(secondSender, n)),
    )) {
      t.equal(error, 'target_not_allowed', 'the next attempt resolves the name again')
    }
    t.equal(listener.connections(), 0)
  },
)

t.test('a redirect is recorded as a failed response, and never followed', async (t) => {
  const internal = await startReceiver(t)
  const statuses = [301, 302, 303, 307, 308]
  const receiver = await startReceiver(t)
  const sender = createSender({ privateTargetPolicy: 'allow' })
  t.teardown(() => sender.close())
  for (const status of statuses) {
    receiver.respondWith((_, res) => res.writeHead(status, { location: internal.url }).end())
    const result = await sender.send({ url: receiver.url, headers: {}, body: Buffer.from('{}') })
    matches(t, result, { succeeded: false, statusCode: status, error: null })
  }
  t.equal(receiver.webhooks.length, statuses.length)
  t.equal(internal.connections(), 0)
})

t.test('public addresses are allowed', async (t) => {
  const ipv4 = [
    ...['9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255'],
    ...['128.0.0.1', '172.15.255.255', '172.32.0.0', '192.167.255.255', '192.169.0.0'],
    ...['198.17.255.255', '198.20.0.0', '223.255.255.255', '8.8.8.8', '192.0.1.1'],
  ]
  const ipv6 = ['2606:4700::1111', '2a00:1450:4001::1', '2001:4860:4860::8888', '2003::1']
  for (const address of [...ipv4, ...ipv6]) {
    t.ok(isGlobalUnicast(address), address)
  }
  for (const text of ['', 'example.com', '127.1', '2606:4700::1111%eth0', '0x7f.1']) {
    t.notOk(isGlobalUnicast(text), text)
  }
})

t.test('a URL is checked when it is saved, and the error says what is wrong', async (t) => {
  const invalid: [text: string, fault: RegExp][] = [
    ['', /complete URL/],
    ['example.com/hook', /complete URL/],
    ['ftp://example.com/', /complete URL/],
    ['file:///etc/passwd', /complete URL/],
    ['javascript:alert(1)', /complete URL/],
    ['https:example.com', /complete URL/],
    ['https:///example.com', /complete URL/],
    ['http://example.com/', /https/],
    ['https://user@example.com/', /password/],
    ['https://user:pw@example.com/', /password/],
    ['https://@example.com/', /password/],
    ['https://example.com@127.0.0.1/', /password/],
    ['https://example.com/#part', /fragment/],
    ['https://example.com/#', /fragment/],
    ['https://example.com:22/', /port 443/],
    ['https://example.com:80/', /port 443/],
    ['https://example.com:1023/', /port 443/],
    ['https://93.184.215.14/', /IP address/],
    ['https://[2606:4700::1111]/', /IP address/],
    ['https://intranet/', /public internet/],
    ['https://printer.local/', /public internet/],
    ['https://metadata.google.internal/', /public internet/],
    ['https://a.localhost/', /public internet/],
    ['https://example.com./', /dot/],
    ['https://exa mple.com/', /spaces/],
    [' https://example.com/', /spaces/],
    ['https://example.com/\r\nHost: a', /spaces/],
    ['https:\\\\example.com\\', /spaces/],
    [`https://example.com/${'a'.repeat(2048)}`, /at most/],
    // Regression: this URL was accepted, but its stored form was too long, so the endpoint could not be edited.
    [`https://example.com/${'é'.repeat(400)}`, /at most/],
  ]
  for (const [text, fault] of invalid)
    matches(t, parseTargetUrl(text, 'refuse'), { error: fault }, text)
  const allowed = ['https://example.com/', 'https://example.com:8443/a?b=c', 'https://EXAMPLE.com']
  for (const text of allowed)
    matches(t, parseTargetUrl(text, 'refuse'), { url: /^https:\/\/ex/ }, text)
})

// Regression: an attempt could not end before it had a connection. With several addresses that did not respond, it took
// longer than its lease, so that its failure was never recorded, and a shutdown waited for it.
t.test(
  'an attempt without a connection ends in time, and then tries no further address',
  async (t) => {
    const sockets: Socket[] = []
    let connectedAt = Number.POSITIVE_INFINITY
    const silent = createServer((socket) => {
      sockets.push(socket.on('error', () => {}))
      connectedAt = Math.min(connectedAt, performance.now())
    })
    const port = await listen(t, silent)
    const dns = await startDns(t, () => ['127.0.0.1', '127.0.0.1'])
    const attemptMsMax = 300
    const options = { privateTargetPolicy: 'allow', dnsServers: [dns.server] } as const
    const request = { url: `https://hooks.example:${port}/`, headers: {}, body: Buffer.from('{}') }
    const sender = createSender({ ...options, attemptMsMax })
    const patientSender = createSender({ ...options, attemptMsMax: 600_000 })
    t.teardown(() => Promise.all([sender.close(), patientSender.close()]))
    matches(t, await sender.send(request), { error: 'timeout' })
    const first = await until(() => sockets[0], 'the attempt connects to the first address')
    t.equal(sockets.length, 1, 'the attempt did not wait until the first address failed')
    // The time for connecting began before the server accepted the connection.
    await until(() => performance.now() - connectedAt > attemptMsMax, 'the time is over')
    first.resetAndDestroy()
    const sending = patientSender.send(request)
    await until(() => sockets.length > 1, 'the next attempt connects')
    patientSender.abortAll()
    matches(t, await sending, { error: 'aborted' })
    t.equal(sockets.length, 2, 'neither attempt has tried the second address')
  },
)

// Regression: without IPv6, the error of the receiver's IPv4 address was never shown.
t.test('if all addresses of a name fail, the error is that of the first', async (t) => {
  const plain = await startReceiver(t)
  const dns = await startDns(t, () => ['127.0.0.1', '::1'])
  const sender = createSender({ privateTargetPolicy: 'allow', dnsServers: [dns.server] })
  t.teardown(() => sender.close())
  const url = `https://hooks.example:${plain.port}/`
  matches(t, await sender.send({ url, headers: {}, body: Buffer.from('{}') }), {
    error: 'tls_failed',
  })
})

t.test('in development, plain http is allowed only to this machine', async (t) => {
  for (const text of ['http://127.0.0.1:3000/', 'http://localhost:3000/', 'https://10.0.0.1/']) {
    t.strictSame(parseTargetUrl(text, 'allow'), { url: text })
  }
  matches(t, parseTargetUrl('http://10.0.0.1/', 'allow'), { error: /https/ })
  const receiver = await startReceiver(t)
  const dns = await startDns(t, () => ['127.0.0.1', '10.0.0.1'])
  const sender = createSender({ privateTargetPolicy: 'allow', dnsServers: [dns.server] })
  t.teardown(() => sender.close())
  const send = (host: string) =>
    sender.send({
      url: `http://${host}:${receiver.port}/`,
      headers: {},
      body: Buffer.from('{}'),
    })
  matches(t, await send('127.0.0.1'), { succeeded: true })
  matches(t, await send('localhost'), { succeeded: true })
  matches(t, await send('lan.example'), { error: 'target_not_allowed' })
})

function ofAttacker(name: string): string {
  return `${name}.attacker.example`
}

/** Listens on every address of this machine. */
async function startListener(t: Test) {
  let connections = 0
  const server = createServer((socket) => {
    connections++
    socket.destroy()
  })
  server.listen(0)
  await once(server, 'listening')
  t.teardown(() => server.close())
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return { port, connections: () => connections }
}
