// Third-party validators accept the contracts: Spectral accepts both, and the schema of OpenAPI 3.1 accepts the public
// one. `npm run check` also runs Redocly on both.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Validator } from '@seriousme/openapi-schema-validator'
import t from 'tap'
import { listOf, membersOf, textOf } from '../../backend/docs/document.ts'
import { readContractDocument } from '../../shared/contract/contract.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const CONTRACTS = ['shared/contract/openapi.yaml', 'shared/contract/settings-openapi.yaml']

t.test('Spectral reports no problems in either contract', async (t) => {
  const args = ['node_modules/.bin/spectral', 'lint', '--format=json', '--quiet', ...CONTRACTS]
  const finished = await promisify(execFile)(process.execPath, args, { cwd: ROOT }).catch(
    (error: { stdout: string }) => error,
  )
  t.strictSame(JSON.parse(finished.stdout), [])
})

t.test('the schema of OpenAPI 3.1 accepts the public contract', async (t) => {
  const result = await new Validator().validate(JSON.parse(readContractDocument().json))
  t.strictSame(result, { valid: true })
})

t.test('in problem examples, details are sentences; field errors end with a period', async (t) => {
  const { components } = membersOf(JSON.parse(readContractDocument().json))
  const problems = Object.values(membersOf(membersOf(components)['examples']))
    .map((example) => membersOf(membersOf(example)['value']))
    .filter(({ code }) => code !== undefined)
  const details = problems.map(({ detail }) => textOf(detail))
  const errors = problems.flatMap(({ errors }) => listOf(errors)).map(membersOf)
  t.ok(details.length > 40)
  t.ok(errors.length > 0)
  t.strictSame(
    details.filter((detail) => !/^[\p{Lu}\d].*\.$/su.test(detail)),
    [],
  )
  t.strictSame(
    errors.filter(({ detail }) => !/[^.]\.$/.test(textOf(detail))),
    [],
  )
})
