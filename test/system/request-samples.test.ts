// Runs two of the sample requests of the reference in each language that is installed, except C#.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { readDocument } from '../../backend/docs/document.ts'
import { type RequestSample, requestSamples } from '../../backend/docs/request-samples.ts'
import { readContractDocument } from '../../shared/contract/contract.ts'
import { missingRuntime } from '../fixtures/service/languages.ts'
import { startSystem } from '../fixtures/service/system.ts'

/** The file of a sample and the command that runs it, by language. */
const PROGRAMS: Readonly<Record<string, { file: string; command: string; args?: string[] }>> = {
  sh: { file: 'sample.sh', command: 'sh' },
  js: { file: 'sample.mjs', command: process.execPath },
  python: { file: 'sample.py', command: 'python3' },
  php: { file: 'sample.php', command: 'php' },
  ruby: { file: 'sample.rb', command: 'ruby' },
  go: { file: 'sample.go', command: 'go', args: ['run'] },
  java: { file: 'Example.java', command: 'java' },
}
/** C# is not run, because a program is a project of several files. */
const NOT_RUN = ['csharp']

const system = await startSystem(t)
const { operations } = readDocument(readContractDocument().json)

t.test('the reference has samples in eight languages', async (t) => {
  const [first] = operations
  t.ok(first)
  if (first === undefined) return
  const languages = requestSamples(first, system.url).map(({ language }) => language)
  t.strictSame(languages, ['sh', 'js', 'python', 'php', 'ruby', 'go', 'csharp', 'java'])
  t.strictSame(
    languages.filter((language) => PROGRAMS[language] === undefined),
    NOT_RUN,
  )
})

for (const [language, { command }] of Object.entries(PROGRAMS)) {
  const skip = missingRuntime(command)
  t.test(`a debtor is created and listed by the samples in ${language}`, { skip }, async (t) => {
    const account = await system.operator.createAccount()
    const { secret } = await system.operator.issueKey(account)
    const created = await runSample(t, sampleOf('createDebtor', language), secret)
    t.ok(/^(?:HTTP\/1\.1 )?201\b.*\bC-10042\b/s.test(created), created)
    const listed = await runSample(t, sampleOf('listDebtors', language), secret)
    t.ok(/^(?:HTTP\/1\.1 )?200\b.*\bC-10042\b/s.test(listed), listed)
  })
}

function sampleOf(operationId: string, language: string): RequestSample {
  const operation = operations.find((candidate) => candidate.operationId === operationId)
  if (operation === undefined) throw new Error(`there is no ${operationId}`)
  const sample = requestSamples(operation, system.url).find(
    (candidate) => candidate.language === language,
  )
  if (sample === undefined) throw new Error(`${operationId} has no sample in ${language}`)
  return sample
}

async function runSample(t: Test, { language, code }: RequestSample, key: string) {
  const { file, command, args = [] } = PROGRAMS[language] ?? { file: '', command: '' }
  const cwd = t.testdir({ [file]: code })
  const env = { ...process.env, NODE_OPTIONS: '', KEY: key, GOCACHE: join(cwd, 'cache') }
  const { stdout } = await promisify(execFile)(command, [...args, file], { cwd, env })
  return stdout
}
