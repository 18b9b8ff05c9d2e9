import t from 'tap'
import { describeRedis, parseRedisAddress } from '../../gateway/rate-limit/redis-address.ts'
import { matches, throwsWith } from '../fixtures/matches.ts'

t.test('every form of REDIS_URL is parsed', async (t) => {
  const forms: [string, object][] = [
    ['redis://cache', { form: 'server', host: 'cache', port: 6379, db: 0, isTls: false }],
    [
      'rediss://gw:p%40ss@10.0.0.7:6380/2',
      { host: '10.0.0.7', port: 6380, username: 'gw', password: 'p@ss', db: 2, isTls: true },
    ],
    ['redis://:secret@[::1]:7000', { host: '::1', port: 7000, password: 'secret' }],
    ['unix:///run/redis.sock?db=3', { form: 'socket', path: '/run/redis.sock', db: 3 }],
    [
      'redis+unix:///run/redis.sock?username=gw&password=x%26y',
      { form: 'socket', username: 'gw', password: 'x&y' },
    ],
    // Regression: an encoded % was rejected, and a + became a space.
    ['unix:///run/redis.sock?password=a%25b+c', { form: 'socket', password: 'a%b+c' }],
    [
      'redis-sentinel://gw:a@s1,s2:26380/main?db=1&sentinel_password=b',
      {
        form: 'sentinel',
        sentinels: [
          { host: 's1', port: 26379 },
          { host: 's2', port: 26380 },
        ],
        master: 'main',
        username: 'gw',
        password: 'a',
        db: 1,
        sentinelLogin: { password: 'b' },
      },
    ],
    [
      // Regression: the space belonged to the host, which was then not found.
      'rediss-cluster://gw:a@n1:7000, n2',
      {
        form: 'cluster',
        isTls: true,
        nodes: [
          { host: 'n1', port: 7000 },
          { host: 'n2', port: 6379 },
        ],
      },
    ],
  ]
  for (const [text, address] of forms) matches(t, parseRedisAddress(text), address, text)
})

t.test('an error names the mistake, and never the password', async (t) => {
  const faults: [string, RegExp][] = [
    ['localhost:6379', /must be an address/],
    ['http://canary@host', /must begin with redis:/],
    ['redis://gw:canary@a,b', /must name one host/],
    ['redis://gw:canary@host:99999', /must name each host/],
    // Regression: the gateway started, and counted calls by itself for good.
    ['redis://gw:canary@host:0', /must not have the port 0/],
    ['redis-cluster://gw:canary@n1,n2:0', /must not have the port 0/],
    ['redis://gw:canary@host/main', /a number as its database/],
    ['redis://gw:canary@host?familly=6', /has an unknown option: familly/],
    ['redis://gw:canary%@host', /must encode each % as %25/],
    // Regression: these three named another mistake, or showed a part of the password.
    ['redis://gw:a/canary@host', /must encode special characters/],
    ['redis://gw:a?canary@host', /must encode special characters/],
    ['redis://gw:1?canary@host', /must encode special characters/],
    // Regression: the gateway did not log in.
    ['redis://canary@host', /must have a password for its user;.* redis:\/\/:password@host$/],
    // Regression: the messages for these two said to write the password before the host.
    ['unix:///run/redis.sock?username=canary', /must have a password .* \?password=…$/],
    ['redis-sentinel://s1/main?sentinel_username=canary', /.* \?sentinel_password=…$/],
    ['unix://host/run/redis.sock', /must name a path/],
    ['unix:/run/redis.sock', /must name a path: unix:\/\/\//],
    ['unix://gw:canary@/run/redis.sock', /must have the user and password as options/],
    ['redis-sentinel://gw:canary@s1', /must name the master/],
    ['redis-sentinel://gw:canary@s1/main/3', /must name the database as an option/],
    ['redis-cluster://gw:canary@n1/1', /must name no database/],
  ]
  for (const [text, message] of faults) {
    throwsWith(t, () => parseRedisAddress(text), { message }, text)
    try {
      parseRedisAddress(text)
    } catch (error) {
      t.notMatch(String(error), /canary/)
    }
  }
})

t.test('an address is described with its database, and without its password', async (t) => {
  for (const [url, description] of [
    ['redis://:secret@[::1]/2', '[::1]:6379, database 2, as default'],
    ['unix:///run/redis.sock?password=secret', '/run/redis.sock, database 0, as default'],
    [
      'redis-sentinel://:secret@one,two:5/main?db=1&sentinel_password=secret',
      'the master main of the sentinels one:26379, two:5, database 1, as default',
    ],
    [
      'redis-cluster://gateway:secret@one,two',
      'the cluster of one:6379, two:6379, database 0, as gateway',
    ],
  ] as const) {
    t.equal(describeRedis(parseRedisAddress(url)), description)
  }
})
