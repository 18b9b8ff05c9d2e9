/**
 * A rehearsal plans and sends reminders, in rounds, as if the clock showed a given date and time. Messages remain due
 * if the mail server is unavailable. The backend's own planner and send worker do not run (`REHEARSAL=on`), but other
 * rehearsals may run at the same time.
 */
import { createId } from '../../shared/contract/id.ts'
import { isOrphaned } from '../background/leases.ts'
import type { MessageRow } from '../database/tables.ts'
import { runPlanning } from './planning/planning-run.ts'
import { REMINDER_LEASES } from './sending/leases.ts'
import { type SendDeps, sendRound } from './sending/send-worker.ts'

/** Prevents endless rounds. A round can require another one, e.g. if an approval has expired and is requested again. */
const ROUNDS_MAX = 20

/**
 * `deps.clock` returns the rehearsed date and time; `accountId` limits the rehearsal to one account. Returns the
 * messages whose status has changed since the rehearsal began, as they are when it ends.
 */
export async function rehearse(deps: SendDeps, accountId?: string): Promise<MessageRow[]> {
  const { database, clock, log } = deps
  // Ids sort by time of creation, so the transitions since the rehearsal began have greater ids.
  const previousId = createId('mtr')
  // Messages that an interrupted rehearsal on this machine was sending become due. Those of rehearsals that still run
  // do not.
  await database.transaction((tx) => REMINDER_LEASES.makeOrphansDue(tx, clock(), isOrphaned))
  // Messages are sent one at a time, so that every rehearsal sends the same messages in the same order.
  const sendInOrder = () => sendRound(deps, 1, { accountId })
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const { messages } = await runPlanning(
      { database, clock, log },
      { allDebtors: round === 0, accountId },
    )
    let result = await sendInOrder()
    while (result.mayHaveMoreDue && !result.isUnavailable) result = await sendInOrder()
    // Even if the first round planned no message, it may have sent waiting messages, after which others can be planned.
    if (messages === 0 && round > 0) break
  }
  const query = database.read
    .selectFrom('messages')
    .selectAll()
    .where('id', 'in', (eb) =>
      eb.selectFrom('message_transitions').select('message_id').where('id', '>', previousId),
    )
    .orderBy('id')
  const ofAccount = accountId === undefined ? query : query.where('account_id', '=', accountId)
  return ofAccount.execute()
}
