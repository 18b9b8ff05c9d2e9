// A backup is created completely or not at all, even if a signal or a power cut comes at the worst moment.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openDatabase } from '../../backend/database/open.ts'
import { SqliteConnection } from '../../backend/database/sqlite/connection.ts'
import { trace } from '../fixtures/payments/strace.ts'
import { SILENT } from '../fixtures/service/database.ts'
import { SCRIPT_ENV } from '../fixtures/service/process.ts'
import { endWithThisProcess } from '../fixtures/service/terminate-children.ts'
import { until } from '../fixtures/service/until.ts'

/** Starts a backup, which waits for a lock on the database after it has created its file. */
async function startBackup(t: Test) {
  const directory = t.testdir({ data: {}, backups: {} })
  const dataDir = join(directory, 'data')
  const backups = join(directory, 'backups')
  const path = join(dataDir, 'receivables.db')
  const migrated = await openDatabase({ url: `sqlite:${path}`, log: SILENT, openedBy: 'migrator' })
  await migrated.close()
  const database = await SqliteConnection.open(path, 'write')
  await database.exec('pragma locking_mode = exclusive; begin immediate')
  const backup = spawn(
    process.execPath,
    ['backend/cli.ts', 'database', 'backup', '--to', join(backups, 'new.db')],
    { env: { ...SCRIPT_ENV, DATA_DIR: dataDir }, stdio: 'ignore' },
  )
  endWithThisProcess(backup)
  const names = () => readdirSync(backups)
  await until(() => names().length > 0, 'the backup has created its file')
  const { pid = 0 } = backup
  return {
    ...{ backup, backups, names, exited: once(backup, 'exit'), unlock: () => database.close() },
    trace: (...expressions: string[]) => trace(t, pid, directory, expressions),
  }
}

/** Creates a file. A thread, like one of SQLite, creates the incomplete file again and again. */
const PROGRAM = `
import { Worker } from 'node:worker_threads'
import { createFile } from '${import.meta.dirname}/../../backend/cli/new-file.ts'

const thread = \`
  const { closeSync, openSync } = require('node:fs')
  const { parentPort, workerData } = require('node:worker_threads')
  for (let turn = 0; ; turn++) {
    try { closeSync(openSync(workerData, 'a')) } catch {}
    if (turn === 1) parentPort.postMessage('')
  }\`
await createFile(process.argv[1], process.stderr, (incomplete) => new Promise(() => {
  const worker = new Worker(thread, { eval: true, execArgv: [], workerData: incomplete })
  worker.on('message', () => console.log('started'))
}))`

t.test('nothing is created after a signal has removed the incomplete file', async (t) => {
  // Regression: a thread could create the file again between its removal and the end of the process.
  const directory = t.testdir()
  const options = ['--input-type=module', '--eval', PROGRAM, join(directory, 'new.db')]
  const child = spawn(process.execPath, options, { stdio: ['ignore', 'pipe', 'inherit'] })
  endWithThisProcess(child)
  const exited = once(child, 'exit')
  await once(child.stdout, 'data')
  child.kill('SIGTERM')
  t.strictSame(await exited, [null, 'SIGTERM'])
  t.strictSame(readdirSync(directory), [])
})

t.test('the name of a complete backup is on the disk', async (t) => {
  // Regression: after a power cut, a backup that had been reported could be named as an incomplete one.
  const { backups, names, exited, unlock, trace } = await startBackup(t)
  const tracing = await trace('trace=fsync,fdatasync,rename,renameat,renameat2')
  if (tracing === undefined) return skip(t)
  await unlock()
  t.strictSame(await exited, [0, null])
  t.strictSame(names(), ['new.db'])
  const calls = (await tracing.end()).map(({ text }) => text)
  const renamed = calls.findIndex((text) => text.includes(`"${join(backups, 'new.db')}"`))
  const isFlush = (text: string) => /^f(?:data)?sync/.test(text) && text.includes(`<${backups}>`)
  t.ok(renamed >= 0 && calls.slice(renamed).some(isFlush), 'the directory is flushed at the end')
})

function skip(t: Test): void {
  t.pass('not tested on this machine', { skip: 'strace is not installed, or may not attach' })
}
