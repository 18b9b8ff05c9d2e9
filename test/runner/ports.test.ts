import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { rejectsWith } from '../fixtures/matches.ts'
import { reservePort, startOnReservedPort } from '../fixtures/servers/ports.ts'

const MODULE = new URL('../fixtures/servers/ports.ts', import.meta.url)

/**
 * Two of twelve numbers are drawn for each of three processes: without reservations some would be equal. They
 * lie below those that tests reserve, at a place of this run's own.
 */
const FIRST = 2_000 + 12 * Math.floor(Math.random() * 200)
const FEW = { first: FIRST, end: FIRST + 12 }

/** A process that reserves ports and keeps them until it is killed. */
async function startHolder(t: Test, count: number): Promise<number[]> {
  const script = `
    const { reservePort } = await import(${JSON.stringify(MODULE.href)})
    const ports = []
    while (ports.length < ${count}) ports.push(await reservePort(${JSON.stringify(FEW)}))
    console.log(JSON.stringify(ports))
    process.stdin.resume()`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  t.teardown(() => {
    child.kill('SIGKILL')
    return ended
  })
  const [line] = await once(createInterface({ input: child.stdout }), 'line')
  return JSON.parse(line)
}

t.test('a port belongs to one process until that process ends', async (t) => {
  const held: number[] = []
  await t.test('no two processes reserve the same', async (t) => {
    const holders = [startHolder(t, 2), startHolder(t, 2), startHolder(t, 2)]
    held.push(...(await Promise.all(holders)).flat())
    t.equal(new Set(held).size, 6, held.join())
  })
  await t.test('and all are free again after them', async (t) => {
    const own: number[] = []
    const reserveAll = async () => {
      for (;;) own.push(await reservePort(FEW))
    }
    await rejectsWith(t, reserveAll(), {
      message: `no port from ${FIRST} to ${FIRST + 11} is free`,
    })
    t.strictSame(
      held.filter((port) => !own.includes(port)),
      [],
    )
  })
})

t.test('the kernel gives a reserved port to no connection', async (t) => {
  const [start] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s+/)
  t.ok((await reservePort()) < Number(start))
})

t.test('a port that a server took without a reservation is passed over', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  await rejectsWith(t, reservePort({ first: port, end: port + 1 }), {
    message: `no port from ${port} to ${port} is free`,
  })
})

t.test('a start that finds its port in use begins again with another', async (t) => {
  const tried: number[] = []
  const port = await startOnReservedPort(async (port) => {
    tried.push(port)
    if (tried.length < 3) throw new Error('bind: Address already in use')
    return port
  })
  t.equal(new Set(tried).size, 3)
  t.equal(port, tried[2])
  const broken = startOnReservedPort(async () => {
    throw new Error('no such option')
  })
  await rejectsWith(t, broken, { message: 'no such option' })
})
