/**
 * The kill switch stops all reminders of an account or of the whole installation, starting with the next message.
 * Messages that are waiting when the switch is activated are suppressed, not postponed. After the switch is released,
 * reminders are planned again.
 *
 * Settings and the command line can change the switch; the API cannot.
 */

import { lockAccount } from '../accounts/accounts.ts'
import { type ActionContext, type Actor, recordAudit } from '../accounts/audit.ts'
import { checkReason } from '../accounts/reason.ts'
import type { Reader, Transaction } from '../database/database.ts'
import type { KillSwitchRow } from '../database/tables.ts'
import { recordEvent } from '../events/events.ts'

/**
 * The value of the column `scope` for the switch that stops the reminders of all accounts. For the switch of an
 * account, the column contains the account's id.
 */
export const INSTALLATION = 'installation'

export interface KillSwitch {
  /** Whose reminders the switch stops. */
  readonly scope: 'account' | 'installation'
  /** Null for the installation's switch. */
  readonly accountId: string | null
  readonly isOn: boolean
  /** Why the switch was activated; null while it is released. */
  readonly reason: string | null
  /** Null if the switch was never used. */
  readonly changedAt: string | null
  /** The label of the user or operator who last changed the switch; null if the switch was never used. */
  readonly changedBy: string | null
  readonly activationCount: number
}

/** What to do with the switch, and why. The audit log shows the reason. */
export type KillSwitchChange =
  | { readonly on: true; readonly reason: string }
  | { readonly on: false; readonly reason?: string | undefined }

export async function readKillSwitches(
  reader: Reader,
  accountId: string,
): Promise<readonly [installation: KillSwitch, account: KillSwitch]> {
  const rows = await reader
    .selectFrom('kill_switches')
    .selectAll()
    .where('scope', 'in', [INSTALLATION, accountId])
    .execute()
  return switchesOf(rows, accountId)
}

/** `rows` may include the switches of other accounts. */
export function switchesOf(
  rows: readonly KillSwitchRow[],
  accountId: string,
): readonly [installation: KillSwitch, account: KillSwitch] {
  const find = (rowScope: string) =>
    switchOf(
      rowScope,
      rows.find((row) => row.scope === rowScope),
    )
  return [find(INSTALLATION), find(accountId)]
}

/** Returns all switches that have ever been used, the installation's switch first. */
export async function listKillSwitches(reader: Reader): Promise<KillSwitch[]> {
  const rows = await reader.selectFrom('kill_switches').selectAll().orderBy('scope').execute()
  const switches = rows.map((row) => switchOf(row.scope, row))
  return switches.sort((a, b) => (a.accountId ?? '').localeCompare(b.accountId ?? ''))
}

/**
 * Activates or releases the switch of the account, or of the installation if `accountId` is null. Idempotent. Throws
 * `not_found`, and `validation_failed` at `/reason`.
 */
export async function setKillSwitch(
  tx: Transaction,
  accountId: string | null,
  change: KillSwitchChange,
  actionContext: ActionContext,
): Promise<KillSwitch> {
  const checkedReason = change.reason === undefined ? undefined : checkReason(change.reason)
  const reason = change.on ? (checkedReason ?? null) : null
  // On PostgreSQL, this lock waits for send checks in progress, which have shared locks of the accounts. Later send
  // checks see the change.
  if (accountId === null) await tx.selectFrom('accounts').select('id').forNoKeyUpdate().execute()
  else await lockAccount(tx, accountId)
  const rowScope = accountId ?? INSTALLATION
  const row = await findRow(tx, rowScope)
  const before = switchOf(rowScope, row)
  if (before.isOn === change.on) return before
  const at = actionContext.now.toISOString()
  const values = {
    is_on: change.on ? 1 : 0,
    reason,
    changed_at: at,
    changed_by: JSON.stringify(withoutAddress(actionContext.actor)),
    times_put_on: before.activationCount + (change.on ? 1 : 0),
  } as const
  await tx
    .insertInto('kill_switches')
    .values({ scope: rowScope, ...values })
    .onConflict((conflict) => conflict.column('scope').doUpdateSet(values))
    .execute()
  const after = switchOf(rowScope, { scope: rowScope, ...values })
  await recordAudit(tx, actionContext, {
    accountId,
    action: change.on ? 'kill_switch.put_on' : 'kill_switch.put_off',
    subjectId: rowScope,
    detail: checkedReason === undefined ? {} : { reason: checkedReason },
  })
  // Accounts without a webhook endpoint receive no events.
  for (const id of accountId === null ? await accountsWithEndpoints(tx) : [accountId]) {
    await recordChangeEvent(tx, id, before, after, actionContext.now)
  }
  return after
}

/** The JSON of a switch in events, Settings and the command line. */
export function killSwitchJson({ scope, isOn, reason, changedAt, changedBy }: KillSwitch) {
  return {
    object: 'kill_switch',
    scope,
    on: isOn,
    reason,
    changed_at: changedAt,
    changed_by: changedBy,
  }
}

/** Returns how often the switches were activated in total. */
export function activationCountOf(switches: readonly KillSwitch[]): number {
  return switches.reduce((sum, { activationCount }) => sum + activationCount, 0)
}

function recordChangeEvent(
  tx: Transaction,
  accountId: string,
  before: KillSwitch,
  after: KillSwitch,
  now: Date,
): Promise<void> {
  return recordEvent(
    tx,
    {
      accountId,
      type: 'kill_switch.changed',
      subjectId: accountId,
      represent: () => killSwitchJson(after),
      representBefore: () => killSwitchJson(before),
    },
    now,
  )
}

async function accountsWithEndpoints(tx: Transaction): Promise<string[]> {
  const rows = await tx.selectFrom('webhook_endpoints').select('account_id').distinct().execute()
  return rows.map((row) => row.account_id)
}

function findRow(reader: Reader, rowScope: string): Promise<KillSwitchRow | undefined> {
  return reader
    .selectFrom('kill_switches')
    .selectAll()
    .where('scope', '=', rowScope)
    .executeTakeFirst()
}

function switchOf(rowScope: string, row: KillSwitchRow | undefined): KillSwitch {
  const by: { label?: string } | null = row === undefined ? null : JSON.parse(row.changed_by)
  return {
    scope: rowScope === INSTALLATION ? INSTALLATION : 'account',
    accountId: rowScope === INSTALLATION ? null : rowScope,
    isOn: row?.is_on === 1,
    reason: row?.reason ?? null,
    changedAt: row?.changed_at ?? null,
    changedBy: by?.label ?? null,
    activationCount: row?.times_put_on ?? 0,
  }
}

/** Removes the actor's IP address: the audit log shows it, but pages and events about the switch must not. */
function withoutAddress({ type, id, label }: Actor) {
  return { type, id, label }
}
