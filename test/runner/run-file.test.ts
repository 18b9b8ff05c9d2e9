import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type FileResult, runFile, runTogether } from '../fixtures/runner/run-file.ts'

/** Runs a test file that contains this code. */
function run(t: Test, text: string, secondsMax = 300): Promise<FileResult> {
  const tap = JSON.stringify(import.meta.resolve('tap'))
  const directory = t.testdir({ 'own.test.mjs': `import t from ${tap}\n${text}` })
  return runFile(join(directory, 'own.test.mjs'), {
    environment: {},
    secondsMax,
  })
}

function shown({ isOk, passed, failures, skipped }: FileResult) {
  return { isOk, passed, failed: failures.map(({ path }) => path), skipped }
}

t.test('assertions, and subtests without assertions, are counted', async (t) => {
  const result = await run(
    t,
    `t.test('outer', async (t) => {
       await t.test('inner', async (t) => { t.ok(true); t.equal(1, 1) })
       t.ok(true)
     })
     t.test('a property', async () => {})
     t.test('not here', { skip: 'ruby is not installed' }, async () => {})`,
  )
  const skipped = [{ name: 'not here', reason: 'ruby is not installed' }]
  t.strictSame(shown(result), { isOk: true, passed: 4, failed: [], skipped })
})

t.test('a failure has its path, location and diff', async (t) => {
  const result = await run(
    t,
    `t.test('outer', async (t) => { await t.test('inner', async (t) => t.equal(1, 2, 'same')) })
     t.test('other', async () => { throw new Error('boom') })`,
  )
  const failed = [
    ['outer', 'inner', 'same'],
    ['other', 'boom'],
  ]
  t.strictSame(shown(result), { isOk: false, passed: 0, failed, skipped: [] })
  const details = result.failures[0]?.details ?? {}
  t.equal(details['diff'], '--- expected\n+++ actual\n@@ -1,1 +1,1 @@\n-2\n+1\n')
  t.ok(details['at'])
})

t.test('a file that exits early fails, even if its assertions passed', async (t) => {
  for (const [text, reason] of [
    ['t.ok(true); process.exit(3)', 'exit code 3'],
    ["t.ok(true); process.kill(process.pid, 'SIGKILL')", 'ended by SIGKILL'],
  ] as const) {
    const { isOk, failures } = await run(t, text)
    t.equal(isOk, false)
    t.equal(failures.length, 1)
    t.strictSame(failures[0]?.path, [`the file did not end normally: ${reason}`])
  }
})

t.test('a file that hangs is killed and fails', async (t) => {
  const { isOk, failures } = await run(
    t,
    't.test("waits", () => new Promise(() => setInterval(() => {}, 1000)))',
    1,
  )
  t.equal(isOk, false)
  t.ok(failures.length > 0)
})

t.test('two runs in one checkout use different temporary directories', async (t) => {
  const { tap } = await run(t, 't.comment(t.testdir()); t.pass()')
  t.ok(tap.includes(`own.test.mjs-${process.pid}`), tap)
})

/** Runs test files that contain this code, all in one process. */
function runAll(t: Test, texts: Readonly<Record<string, string>>): Promise<FileResult[]> {
  const file = (text: string) => `import t from 'tap'\n${text}`
  const directory = t.testdir(
    Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, file(text)])),
  )
  const files = Object.keys(texts).map((name) => join(directory, name))
  return runTogether(files, { environment: {}, secondsMax: 300 })
}

t.test('files in one process have separate results', async (t) => {
  const results = await runAll(t, {
    'a.mjs': "globalThis.seen = 'a'; t.test('inner', async (t) => t.pass())",
    'b.mjs': "t.test('outer', (t) => t.test('inner', async (t) => t.equal(1, 2, 'same')))",
    'c.mjs': "throw new Error('boom')",
    'd.mjs': "t.teardown(() => t.comment('torn down')); t.equal(globalThis.seen, 'a'); t.pass()",
  })
  t.strictSame(results.map(shown), [
    { isOk: true, passed: 1, failed: [], skipped: [] },
    { isOk: false, passed: 0, failed: [['outer', 'inner', 'same']], skipped: [] },
    { isOk: false, passed: 0, failed: [['boom']], skipped: [] },
    { isOk: true, passed: 2, failed: [], skipped: [] },
  ])
  t.ok(results[3]?.tap.includes('# torn down'))
})

t.test('if a process ends early, the files that it did not finish fail', async (t) => {
  const failure = 'the file did not end normally: exit code 3'
  const ends = await runAll(t, {
    'a.mjs': 't.pass()',
    'b.mjs': "t.test('inner', async (t) => { t.pass(); process.exit(3) })",
    'c.mjs': 't.pass()',
  })
  t.strictSame(
    ends.map(({ isOk }) => isOk),
    [true, false, false],
  )
  // tap treats an exit within a subtest as a failure and exits with 1.
  t.strictSame(ends[2]?.failures[0]?.path, ['the file did not end normally: exit code 1'])
  const late = await runAll(t, {
    'a.mjs': 't.pass()',
    'b.mjs': "process.on('exit', () => process.exit(3)); t.pass()",
  })
  t.strictSame(late.map(shown), [
    { isOk: true, passed: 1, failed: [], skipped: [] },
    { isOk: false, passed: 1, failed: [[failure]], skipped: [] },
  ])
})
