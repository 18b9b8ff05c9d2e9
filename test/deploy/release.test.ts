import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { matches } from '../fixtures/matches.ts'

const root = join(import.meta.dirname, '..', '..')
const CHANGELOG = '# Changelog\n\n## Pending\n\n- A change.\n\n## 0.1.0\n\n- The first version.\n'

/** Creates a repository that contains the command, and returns its directory. */
function createRepository(t: Test): string {
  const cwd = t.testdir({ 'CHANGELOG.md': CHANGELOG })
  mkdirSync(join(cwd, 'deploy'))
  cpSync(join(root, 'deploy/release'), join(cwd, 'deploy/release'))
  const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@example.com']
  execFileSync('git', ['init', '-q'], { cwd })
  execFileSync('git', ['add', '.'], { cwd })
  execFileSync('git', [...identity, 'commit', '-q', '-m', 'Begin'], { cwd })
  return cwd
}

// Regression: the changelog got a second section for the same version.
t.test('a version that the changelog has already is not released again', async (t) => {
  const cwd = createRepository(t)
  const { status, stderr } = spawnSync('deploy/release', ['0.1.0'], { cwd, encoding: 'utf8' })
  t.equal(status, 1)
  matches(t, stderr, /^CHANGELOG\.md already has a section 0\.1\.0\.$/m)
  t.equal(readFileSync(join(cwd, 'CHANGELOG.md'), 'utf8'), CHANGELOG)
})

// Regression: npm rejected these versions only after the changelog was committed.
t.test('a version that is not three numbers is not released', async (t) => {
  const cwd = createRepository(t)
  for (const version of ['0.2.', '0..2', '0.02.0', 'v0.2.0', '0.2.0-rc.1']) {
    const { status, stderr } = spawnSync('deploy/release', [version], { cwd, encoding: 'utf8' })
    t.equal(status, 1, version)
    t.equal(stderr, 'VERSION must be three numbers, as in 0.1.0.\n', version)
  }
})
