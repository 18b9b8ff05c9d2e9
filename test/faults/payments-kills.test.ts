import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import { openLedger } from '../fixtures/payments/ledger.ts'
import { payDuringFaults } from '../fixtures/payments/pay-during-faults.ts'
import { SEED } from '../fixtures/properties.ts'
import { startRedis } from '../fixtures/servers/redis.ts'

const KILLS = 10

// Many processes are started, which takes minutes on a busy machine.
t.setTimeout(900_000)

t.test(
  `no payment is lost or recorded twice despite random kills of backend and gateways (SEED=${SEED})`,
  async (t) => {
    const redis = await startRedis(t)
    const ledger = await openLedger(t, { gateways: 2, redisUrl: redis.url })
    const isOver = ({
      backendKills,
      gatewayKills,
    }: {
      backendKills: number
      gatewayKills: number
    }) => backendKills >= KILLS && gatewayKills >= KILLS
    const faults = await payDuringFaults({ ledger, seed: SEED, redis, isOver })
    const { violations, figures } = await ledger.check()
    t.comment({ ...faults, ...figures })
    t.strictSame(violations, [])
    matches(t, figures, { duplicates: 0, acknowledgedButLost: 0, replayDisagreements: 0 })
    t.ok(figures.acknowledged > KILLS)
  },
)
