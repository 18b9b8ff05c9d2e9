/** The command that creates the secrets of an installation. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const FILES = [
  'database_password',
  'database_url',
  'gateway_secret',
  'key_pepper',
  'redis_password',
  'redis_url',
  'secret_box_key',
]

function makeSecrets(directory: string, env: NodeJS.ProcessEnv = {}) {
  return spawnSync('deploy/make-secrets', [directory], { env: { ...process.env, ...env } }).status
}

t.test('secrets are created once', (t) => {
  const directory = join(t.testdir(), 'secrets')
  t.equal(makeSecrets(directory), 0)
  t.strictSame(readdirSync(directory), FILES)
  const read = () => FILES.map((name) => readFileSync(join(directory, name), 'utf8'))
  const secrets = read()
  t.equal(makeSecrets(directory), 0)
  t.strictSame(read(), secrets)
  t.end()
})

// Regression: the command succeeded with empty files, and did not replace them later.
t.test('an interrupted creation is completed by the next', (t) => {
  const parent = t.testdir({ secrets: {}, bin: {} })
  const directory = join(parent, 'secrets')
  writeFileSync(join(parent, 'bin', 'openssl'), '#!/bin/sh\nexit 1\n', { mode: 0o755 })
  t.not(makeSecrets(directory, { PATH: `${join(parent, 'bin')}:${process.env['PATH']}` }), 0)
  t.equal(makeSecrets(directory), 0)
  for (const name of FILES) t.ok(readFileSync(join(directory, name), 'utf8').length >= 64, name)
  t.end()
})

// Regression: the password became a part of the address as it was.
t.test('a password that exists already is encoded in its address', (t) => {
  const password = `p@ s/%41é$"'\\#?+:x`
  const directory = t.testdir({ database_password: `${password}\n`, redis_password: password })
  t.equal(makeSecrets(directory), 0)
  for (const name of ['database_url', 'redis_url']) {
    const url = new URL(readFileSync(join(directory, name), 'utf8'))
    t.equal(decodeURIComponent(url.password), password, name)
  }
  t.end()
})
