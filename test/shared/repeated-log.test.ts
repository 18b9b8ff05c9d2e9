import { Writable } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import { createRepeatedLog } from '../../shared/process/repeated-log.ts'
import { matches } from '../fixtures/matches.ts'
import { until } from '../fixtures/service/until.ts'

t.test('the first of a kind is logged whole, the others of its second as a number', async (t) => {
  const lines: { msg: string; more?: number; err?: { stack: string } }[] = []
  const log = pino(
    new Writable({
      write(line, _, done) {
        lines.push(JSON.parse(line))
        done()
      },
    }),
  )
  const repeated = createRepeatedLog(log)
  for (let call = 0; call < 100; call++) {
    repeated.warn('a', { err: new Error('away') }, 'backend a')
    repeated.error('b', { err: new Error('away') }, 'backend b')
  }
  matches(t, lines, [
    { msg: 'backend a', level: 40, err: { stack: /away/ } },
    { msg: 'backend b', level: 50, err: { stack: /away/ } },
  ])
  await until(() => lines.length === 4, 'the rest is told')
  matches(t, lines.slice(2), [
    { msg: 'backend a', kind: 'a', more: 99, seconds: 1 },
    { msg: 'backend b', kind: 'b', more: 99, seconds: 1 },
  ])
})
