/**
 * `npm run clients`: creates the package of the TypeScript client in `clients/typescript` and packs it.
 * openapi-typescript generates the types. It needs the JavaScript API of TypeScript 5, and this project uses TypeScript
 * 7, which has no such API. openapi-typescript and TypeScript 5 are therefore installed in a separate folder,
 * `clients/generator`.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import packageJson from '../../package.json' with { type: 'json' }
import { readContractDocument } from '../../shared/contract/contract.ts'

const HERE = import.meta.dirname
const ROOT = join(HERE, '..', '..')

const { values } = parseArgs({
  options: { directory: { type: 'string', default: join(ROOT, 'clients') } },
})
// The commands below run in other directories.
const directory = resolve(values.directory)
const generator = join(directory, 'generator')
const client = join(directory, 'typescript')

const { json, yaml } = readContractDocument()
rmSync(client, { recursive: true, force: true })
mkdirSync(directory, { recursive: true })
cpSync(join(HERE, 'generator'), generator, { recursive: true })
cpSync(join(HERE, 'typescript'), join(client, 'src'), { recursive: true })
cpSync(join(HERE, 'typescript', 'README.md'), join(client, 'README.md'))
cpSync(join(ROOT, 'LICENSE'), join(client, 'LICENSE'))
writeFileSync(join(client, 'openapi.yaml'), yaml)
writeFileSync(join(client, 'package.json'), `${JSON.stringify(packageOf(json), null, 2)}\n`)

run(generator, 'npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline')
const generate = join(generator, 'node_modules/openapi-typescript/bin/cli.js')
run(client, process.execPath, generate, 'openapi.yaml', '--output', 'src/schema.ts')
run(client, join(ROOT, 'node_modules/.bin/tsc'), ...compilerOptions())
run(client, 'npm', 'pack', '--pack-destination', directory)

function packageOf(document: string) {
  const { info } = JSON.parse(document) as { info: { version: string } }
  const { 'openapi-fetch': openapiFetch, standardwebhooks } = packageJson.devDependencies
  return {
    name: 'receivables-client',
    version: info.version,
    description: 'Client of the Receivables API, generated from its OpenAPI document',
    license: packageJson.license,
    type: 'module',
    engines: { node: '>=22' },
    files: ['dist'],
    exports: { '.': { types: './dist/index.d.ts', default: './dist/index.js' } },
    types: './dist/index.d.ts',
    sideEffects: false,
    dependencies: { 'openapi-fetch': openapiFetch, standardwebhooks },
  }
}

function compilerOptions(): string[] {
  return [
    ...['--ignoreConfig', '--declaration', '--rewriteRelativeImportExtensions'],
    ...['--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess'],
    ...['--verbatimModuleSyntax', '--module', 'nodenext', '--target', 'es2023', '--types', 'node'],
    ...['--rootDir', 'src', '--outDir', 'dist', 'src/index.ts'],
  ]
}

/** Runs a command in the directory `cwd`. Its output goes to standard error. */
function run(cwd: string, command: string, ...args: string[]): void {
  execFileSync(command, args, { cwd, stdio: ['ignore', 2, 2] })
}
