// Runs the commands of "Set-up by hand" in docs/operations.md, except those that install packages and servers. The
// directories and ports in the commands are replaced with those of this test.

import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import { reservePort } from '../fixtures/servers/ports.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { newPostgresUrl } from '../fixtures/service/database-url.ts'

const root = join(import.meta.dirname, '..', '..')
const page = readFileSync(join(root, 'docs/operations.md'), 'utf8')

function blocksOf(section: string): string[] {
  const [, text = ''] = page.split(`## ${section}\n`)
  const [ownText = ''] = text.split(/^## /m)
  return [...ownText.matchAll(/^```\n(.*?)^```$/gms)].map(([, block = '']) => block)
}

/** Replaces each port in the commands with a port that is reserved for this test. */
async function replacePorts(script: string): Promise<string> {
  let replaced = script
  for (const port of new Set(script.match(/\b80[89]\d\b/g))) {
    replaced = replaced.replaceAll(port, String(await reservePort()))
  }
  return replaced
}

t.test(
  'the commands start two gateways and two backends, which serve calls with a new key',
  async (t) => {
    const [packages = '', secrets = '', servers = '', ...rest] = blocksOf('Set-up by hand')
    matches(t, packages, /npm ci/)
    matches(t, servers, /create role receivables .*noeviction/s)
    const directory = t.testdir()
    const files = join(directory, 'secrets')
    mkdirSync(files)
    writeFileSync(join(files, 'database_url'), await newPostgresUrl(t))
    writeFileSync(join(files, 'redis_url'), (await startRedis(t)).url)
    const script = [secrets, `secrets=${files}\n`, ...rest]
      .join('')
      .replaceAll('/etc/receivables/secrets', files)
      .replaceAll('/var/log/receivables', join(directory, 'log'))
      .replaceAll('/var/lib/receivables', join(directory, 'data'))
      .replaceAll('/opt/receivables', root)
      // The commands have a placeholder for the key, because a reader copies the printed key into them.
      .replace(/^(node backend\/cli\.ts keys issue .*)$/m, 'key=$($1 | grep -o "rcv_.*")')
      .replaceAll('rcv_…', '$key')
    const { stdout } = await promisify(execFile)(
      'bash',
      ['-euc', `trap 'kill $(jobs -p); wait' EXIT\n${await replacePorts(script)}`],
      { cwd: root, timeout: 200_000 },
    )
    t.equal(stdout.match(/^\{"ready":true,"reasons":\[\],"degraded":/gm)?.length, 4)
    const responses = [...stdout.matchAll(/HTTP\/1\.1 200 OK.*?^x-ratelimit-remaining: (\d+)/gms)]
    t.strictSame(
      responses.map(([, remaining]) => remaining),
      ['599', '598'],
      'the two gateways share the rate limit',
    )
  },
)
