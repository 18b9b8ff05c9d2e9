import t from 'tap'
import { exchangeBytes } from '../fixtures/service/gateway.ts'
import { startListener } from './fixtures/listener.ts'

const CALLS = 500

// Regression: a client that pipelined calls without a key over 50 connections made the calls of other clients wait
// for up to twelve seconds.
t.test(
  'between two pipelined calls with an immediate response, other clients get their turn',
  async (t) => {
    let callsInTurn = 0
    let callsInTurnMax = 0
    const port = await startListener(t, {
      serve() {
        callsInTurnMax = Math.max(callsInTurnMax, ++callsInTurn)
        return { status: 200, headers: [], body: Buffer.from('{}') }
      },
    })
    let isCounting = true
    const countTurns = () => {
      callsInTurn = 0
      if (isCounting) setImmediate(countTurns)
    }
    countTurns()
    const request = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
    const last = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
    const { text } = await exchangeBytes(port, request.repeat(CALLS - 1) + last)
    isCounting = false
    t.equal(text.match(/HTTP\/1\.1 200 OK/g)?.length, CALLS)
    // `countTurns` runs before or after the call of a turn, so two calls may fall between two resets of the count.
    t.ok(callsInTurnMax <= 2, `${callsInTurnMax} calls in one turn`)
  },
)
