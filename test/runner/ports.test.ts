import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { rejectsWith } from '../fixtures/matches.ts'
import { listen } from '../fixtures/servers/listen.ts'
import { reservePort, startOnReservedPort } from '../fixtures/servers/ports.ts'

const MODULE = new URL('../fixtures/servers/ports.ts', import.meta.url)

/**
 * A range of twelve ports, from which three processes reserve two ports each. Without reservations, two processes would
 * often choose the same port. The range is below the ports that other tests reserve, and is random, so that concurrent
 * runs use different ranges.
 */
const FIRST = 2_000 + 12 * Math.floor(Math.random() * 200)
const RANGE = { first: FIRST, end: FIRST + 12 }

/** Starts a process that reserves ports and keeps them until it is killed. */
async function startHolder(t: Test, count: number): Promise<number[]> {
  const script = `
    const { reservePort } = await import(${JSON.stringify(MODULE.href)})
    const ports = []
    while (ports.length < ${count}) ports.push(await reservePort(${JSON.stringify(RANGE)}))
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
  const reserved: number[] = []
  await t.test('no two processes reserve the same port', async (t) => {
    const holders = [startHolder(t, 2), startHolder(t, 2), startHolder(t, 2)]
    reserved.push(...(await Promise.all(holders)).flat())
    t.equal(new Set(reserved).size, 6, reserved.join())
  })
  await t.test('all ports are free again after the processes have ended', async (t) => {
    const own: number[] = []
    const reserveAll = async () => {
      for (;;) own.push(await reservePort(RANGE))
    }
    await rejectsWith(t, reserveAll(), {
      message: `no port from ${FIRST} to ${FIRST + 11} is free`,
    })
    t.strictSame(
      reserved.filter((port) => !own.includes(port)),
      [],
    )
  })
})

t.test('a reserved port is below the range from which the kernel assigns ports', async (t) => {
  const [start] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s+/)
  t.ok((await reservePort()) < Number(start))
})

t.test('a port on which a server listens without a reservation is skipped', async (t) => {
  const port = await listen(t, createServer())
  await rejectsWith(t, reservePort({ first: port, end: port + 1 }), {
    message: `no port from ${port} to ${port} is free`,
  })
})

t.test('a start is repeated with another port only if its port is in use', async (t) => {
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
