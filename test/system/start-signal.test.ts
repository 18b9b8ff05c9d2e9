/** A backend that waits for its database during the start ends on SIGTERM, also as the first process of a container. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import t from 'tap'
import { listen } from '../fixtures/servers/listen.ts'
import { SCRIPT_ENV } from '../fixtures/service/process.ts'

const AS_FIRST_PROCESS = ['unshare', '--pid', '--fork', '--kill-child']
const canUnshare = spawnSync('unshare', ['--pid', '--fork', 'true']).status === 0

// Regression: Linux ignored the signal, and the container was killed after its grace period.
t.test(
  'SIGTERM ends a start with the process id 1',
  canUnshare ? {} : { skip: 'process namespaces require Linux and root' },
  async (t) => {
    const database = createServer((socket) => void socket.on('error', () => {}))
    const port = await listen(t, database)
    const secret = 'Zk3vQ9pLr7TnXw2sYb8cHd5fJg6mKa4e'
    const [command = '', ...words] = [...AS_FIRST_PROCESS, process.execPath, 'backend/main.ts']
    const namespace = spawn(command, words, {
      env: {
        ...SCRIPT_ENV,
        BACKEND_PORT: '0',
        BACKEND_OPERATIONS_PORT: '0',
        DATABASE_URL: `postgres://receivables@127.0.0.1:${port}/receivables`,
        GATEWAY_SECRET: secret,
        KEY_PEPPER: `v1:${secret}`,
        SECRET_BOX_KEY: secret,
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    t.teardown(() => namespace.kill('SIGKILL'))
    const log: string[] = []
    namespace.stderr.on('data', (chunk: Buffer) => log.push(chunk.toString()))
    const exited = once(namespace, 'exit')
    await once(database, 'connection')
    const { pid } = namespace
    process.kill(Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')), 'SIGTERM')
    t.strictSame(await exited, [1, null])
    t.strictSame(log, [], 'the start did not end with an error of the database')
  },
)
