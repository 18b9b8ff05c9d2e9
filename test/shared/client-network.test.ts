import t from 'tap'
import { clientNetwork, withoutIpv4Mapping } from '../../shared/contract/client-network.ts'

t.test(
  'clients are distinguished by IPv4 address, or by the /64 network of an IPv6 address',
  async (t) => {
    const networks: Record<string, string> = {
      '198.51.100.7': '198.51.100.7',
      '::ffff:198.51.100.7': '198.51.100.7',
      '::ffff:c633:6407': '198.51.100.7',
      '2001:db8:1:2:3:4:5:6': '2001:db8:1:2::/64',
      '2001:DB8:1:2::': '2001:db8:1:2::/64',
      '2001:db8::1:2:3:4:5': '2001:db8:0:1::/64',
      '2001:db8::6': '2001:db8:0:0::/64',
      '2001:0db8:0001::6': '2001:db8:1:0::/64',
      'fe80::1%eth0': 'fe80:0:0:0::/64',
      '::1': '0:0:0:0::/64',
      '': '',
    }
    for (const [address, network] of Object.entries(networks)) {
      t.equal(clientNetwork(address), network, address)
    }
  },
)

t.test('an IPv4-mapped address is converted to IPv4, and any other is not changed', async (t) => {
  t.equal(withoutIpv4Mapping('::ffff:198.51.100.7'), '198.51.100.7')
  t.equal(withoutIpv4Mapping('0:0:0:0:0:FFFF:c633:6407'), '198.51.100.7')
  for (const address of ['198.51.100.7', '2001:DB8::6', 'fe80::1%eth0', '']) {
    t.equal(withoutIpv4Mapping(address), address)
  }
})
