import t from 'tap'
import { parsePrefix, readAddressPrefixes } from '../../shared/contract/address-prefixes.ts'

t.test('prefixes and addresses are converted to a canonical form', async (t) => {
  const forms: [text: string, canonical: string][] = [
    ['203.0.113.7', '203.0.113.7/32'],
    [' 203.0.113.0/24 ', '203.0.113.0/24'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['2001:DB8:0:0::/32', '2001:db8::/32'],
    ['2001:db8::1', '2001:db8::1/128'],
    ['::/0', '::/0'],
    ['::ffff:203.0.113.7', '203.0.113.7/32'],
    ['::ffff:203.0.113.0/120', '203.0.113.0/24'],
  ]
  for (const [text, canonical] of forms) t.strictSame(parsePrefix(text), { prefix: canonical })
})

t.test('a prefix with host bits, or text that is no prefix or address, is rejected', async (t) => {
  const wrong = [
    '203.0.113.7/24',
    '2001:db8::1/64',
    '203.0.113.0/33',
    '2001:db8::/129',
    '::ffff:203.0.113.0/64',
    '203.0.113.0/',
    '203.0.113.0/-1',
    '203.0.113.0/24/1',
    '203.0.113',
    '0313.0.113.7',
    '3405803783',
    'fe80::1%eth0',
    'api.example.com',
    '',
  ]
  for (const text of wrong) t.strictSame(Object.keys(parsePrefix(text)), ['fault'], text)
  t.strictSame(parsePrefix('203.0.113.7/24'), {
    fault:
      '203.0.113.7/24 is ambiguous: enter 203.0.113.0/24 for the network, or 203.0.113.7 for one address.',
  })
})

t.test('a list contains the addresses of its prefixes, and no other addresses', async (t) => {
  const prefixes = ['203.0.113.0/24', '198.51.100.7/32', '2001:db8:7::/48', '2001:db8::1/128']
  const list = readAddressPrefixes(prefixes)
  const inside = [
    '203.0.113.0',
    '203.0.113.255',
    '198.51.100.7',
    '2001:db8:7:ffff::1',
    '2001:DB8:0:0:0:0:0:1',
    '::ffff:203.0.113.9',
    '::ffff:cb00:7109',
  ]
  const outside = [
    '203.0.112.255',
    '203.0.114.0',
    '198.51.100.8',
    '2001:db8:8::',
    '2001:db8::2',
    '::cb00:7109',
    '::ffff:198.51.100.8',
    '',
    'unknown',
    '203.0.113.9, 198.51.100.7',
  ]
  for (const address of inside) t.equal(list.contain(address), true, address)
  for (const address of outside) t.equal(list.contain(address), false, address)
})

t.test('a prefix of one family contains no address of the other', async (t) => {
  const every = { v4: readAddressPrefixes(['0.0.0.0/0']), v6: readAddressPrefixes(['::/0']) }
  t.equal(every.v4.contain('255.255.255.255'), true)
  t.equal(every.v4.contain('::ffff:1.2.3.4'), true)
  t.equal(every.v4.contain('2001:db8::1'), false)
  t.equal(every.v6.contain('2001:db8::1'), true)
  t.equal(every.v6.contain('::ffff:1.2.3.4'), false)
})
