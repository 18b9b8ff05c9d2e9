import t from 'tap'
import { createCollapsingLog } from '../../shared/process/collapsing-log.ts'
import { matches } from '../fixtures/matches.ts'
import { recordLog } from '../fixtures/recorded-log.ts'
import { until } from '../fixtures/service/until.ts'

t.test(
  'the first event of a kind is logged in full, the others within the next second as a count',
  async (t) => {
    const { log, lines } = recordLog<{ msg: string; more?: number; err?: { stack: string } }>()
    const collapsingLog = createCollapsingLog(log)
    for (let call = 0; call < 100; call++) {
      collapsingLog.warn('a', { err: new Error('unavailable') }, 'backend a')
      collapsingLog.error('b', { err: new Error('unavailable') }, 'backend b')
    }
    matches(t, lines, [
      { msg: 'backend a', level: 40, err: { stack: /unavailable/ } },
      { msg: 'backend b', level: 50, err: { stack: /unavailable/ } },
    ])
    await until(() => lines.length === 4, 'the counts are logged')
    matches(t, lines.slice(2), [
      { msg: 'backend a', kind: 'a', more: 99, seconds: 1 },
      { msg: 'backend b', kind: 'b', more: 99, seconds: 1 },
    ])
  },
)
