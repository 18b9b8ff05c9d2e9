import t from 'tap'
import {
  describeSettings,
  fraction,
  host,
  httpOrigin,
  httpUrl,
  list,
  readSettings,
  secret,
  text,
} from '../../shared/process/settings.ts'
import { throwsWith } from '../fixtures/matches.ts'

const GOOD = 'Zk3vQ9pLr7TnXw2sYb8cHd5fJg6mKa4e'
const SCHEMA = {
  APP_SECRET: list(secret('A secret.')),
  APP_NAME: text('A name.', { fallback: 'x' }),
}
const read = (environment: Record<string, string>) =>
  readSettings(SCHEMA, environment, { prefix: 'APP_' })

t.test('a secret is read from a file, without the line end after it', async (t) => {
  const APP_SECRET_FILE = `${t.testdir({ secret: `${GOOD},${GOOD}x\n` })}/secret`
  t.strictSame(read({ APP_SECRET_FILE }).APP_SECRET, [GOOD, `${GOOD}x`])
  t.equal(
    describeSettings(SCHEMA, { APP_SECRET_FILE }),
    `APP_SECRET=[read from ${APP_SECRET_FILE}]\nAPP_NAME=x`,
  )
  t.equal(describeSettings(SCHEMA, { APP_SECRET: GOOD }), 'APP_SECRET=[set]\nAPP_NAME=x')
  // An empty variable counts as unset.
  t.strictSame(read({ APP_SECRET_FILE, APP_SECRET: '' }).APP_SECRET, [GOOD, `${GOOD}x`])
})

t.test('a byte order mark before a secret in a file is ignored', async (t) => {
  const APP_SECRET_FILE = `${t.testdir({ secret: `\uFEFF${GOOD}\r\n` })}/secret`
  t.strictSame(read({ APP_SECRET_FILE }).APP_SECRET, [GOOD])
})

t.test('white space around the value of a variable is ignored', async (t) => {
  // Regression: with a line end, as of `echo` in a Secret of Kubernetes, valid values were rejected or misread.
  const directory = t.testdir({ secret: GOOD })
  const APP_NAME = ' a b\r\n'
  t.strictSame(read({ APP_SECRET_FILE: `${directory}/secret\n`, APP_NAME, APP_SECRET: ' ' }), {
    APP_SECRET: [GOOD],
    APP_NAME: 'a b',
  })
  t.equal(describeSettings(SCHEMA, { APP_SECRET: '\n', APP_NAME }), 'APP_SECRET=\nAPP_NAME=a b')
})

t.test(
  'an error about a file names its variable, and does not show the content of the file',
  async (t) => {
    const directory = t.testdir({ empty: '\n', short: 'S3CR3T' })
    const assertRejected = (environment: Record<string, string>, message: RegExp) =>
      throwsWith(t, () => read(environment), { name: 'SettingsError', message })
    assertRejected(
      { APP_SECRET_FILE: `${directory}/none` },
      /^APP_SECRET_FILE cannot be read: ENOENT/,
    )
    assertRejected({ APP_SECRET_FILE: directory }, /^APP_SECRET_FILE cannot be read: EISDIR/)
    assertRejected(
      { APP_SECRET_FILE: `${directory}/empty` },
      /^APP_SECRET_FILE names an empty file/,
    )
    assertRejected(
      { APP_SECRET_FILE: `${directory}/short` },
      /^APP_SECRET must have at least 32 char[^3]+$/,
    )
    assertRejected(
      // Regression: a secret with a comma was rejected as if it were too short.
      { APP_SECRET: `${GOOD},x` },
      /^APP_SECRET contains a comma, so it is read as several values; value \d must have at least 32/,
    )
    assertRejected(
      { APP_SECRET_FILE: `${directory}/short`, APP_SECRET: GOOD },
      /^APP_SECRET_FILE and APP_SECRET are both set/,
    )
    assertRejected({ APP_SECRET: GOOD, APP_NAME_FILE: 'x' }, /^APP_NAME_FILE is not a setting/)
  },
)

t.test('a password in an address is not shown', async (t) => {
  const schema = { APP_URL: httpUrl('An address.') }
  t.equal(describeSettings(schema, { APP_URL: 'http://u:p@a/b@c' }), 'APP_URL=http://[set]@c')
  const masked = /not "http:\/\/\[set\]@h\/\?x"/
  for (const password of ['hun/ter2', 'hun,ter2', 'hun ter2'])
    throwsWith(t, () => schema.APP_URL.parse(`http://u:${password}@h/?x`), { message: masked })
})

t.test('an IPv6 address to listen on may have brackets', async (t) => {
  // Regression: the process looked the address with its brackets up as a name, and did not start.
  const { parse } = host('A host.')
  t.strictSame(['[::1]', '::', 'db-1.example'].map(parse), ['::1', '::', 'db-1.example'])
})

t.test('an http address has no query, and no slash at its end', async (t) => {
  const { parse } = httpUrl('An address.')
  t.equal(parse('HTTPS://Müller.example:443/a//'), 'https://xn--mller-kva.example/a')
  // Regression: `?` or `#` alone was accepted, so that links with this address were wrong.
  for (const address of ['https://a.example/?', 'https://a.example#', 'https://a.example?b=c']) {
    throwsWith(t, () => parse(address), { message: /without a query or fragment/ }, address)
  }
})

t.test('the address of the service has no path', async (t) => {
  const { parse } = httpOrigin('An address.')
  t.equal(parse('HTTPS://Müller.example:443/'), 'https://xn--mller-kva.example')
  t.equal(parse('http://127.0.0.1:8080//'), 'http://127.0.0.1:8080')
  // Regression: the processes started, and every link to a page or in a mail was wrong.
  for (const address of [
    'https://a.example/base',
    'https://u:p@a.example',
    'https://a.example/?',
  ]) {
    throwsWith(
      t,
      () => parse(address),
      { message: /without a login, path, query or frag/ },
      address,
    )
  }
  throwsWith(t, () => parse('https://a.example:0'), { message: /must not have the port 0/ })
})

t.test('a fraction is a number from 0 to 1', async (t) => {
  const setting = fraction('A fraction.')
  t.strictSame(['0', '1', '0.25', '.5', '1.0'].map(setting.parse), [0, 1, 0.25, 0.5, 1])
  for (const text of ['', '1.1', '-0', '1e-3', '0,5', 'all']) t.throws(() => setting.parse(text))
})
