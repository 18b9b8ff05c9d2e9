import { getAccount } from '../accounts/accounts.ts'
import { OPERATOR } from '../accounts/audit.ts'
import { isCalendarDate, parseInstant, startOfDay, todayIn } from '../calendar/calendar.ts'
import type { Database } from '../database/database.ts'
import type { DebtorRow } from '../database/tables.ts'
import { readBalances } from '../debtors/balances.ts'
import { getLockedDebtor } from '../debtors/change.ts'
import { archiveDebtor, pauseChasing, restoreDebtor, resumeChasing } from '../debtors/chasing.ts'
import { clearSuppression } from '../debtors/contactability.ts'
import { editDebtor } from '../debtors/details.ts'
import { renderDebtor } from '../debtors/representation.ts'
import { resumeInvoicesOf } from '../invoices/acts.ts'
import {
  type Command,
  type Context,
  defineCommand,
  type Output,
  REASON,
  UsageError,
} from './command.ts'
import { accountOf } from './owner.ts'

const text = (value: string, description: string) =>
  ({ type: 'string', value, description }) as const

export const debtorCommands: readonly Command[] = [
  defineCommand({
    name: 'debtors edit',
    summary:
      'Change who a customer is and how it is reached. Fields that are not named stay; an empty value deletes the field.',
    arguments: ['ID'],
    options: {
      name: text('N', 'Its name.'),
      email: text('E', 'Where reminders go. After a bounce also: debtors clear-contact.'),
      phone: text('P', 'In E.164 form, e.g. +31205550142.'),
      language: text('L', 'BCP 47 tag of the language it is written to in, e.g. nl.'),
      timezone: text('T', 'IANA name; the account’s unless given.'),
      line1: text('A', 'The address: street and number.'),
      line2: text('A', 'A second line.'),
      city: text('C', 'City.'),
      region: text('R', 'Region or state.'),
      'postal-code': text('P', 'Postal code.'),
      country: text('C', 'ISO 3166-1 code, e.g. NL.'),
    },
    async run({ ID, 'postal-code': postalCode, ...named }, context) {
      const given = { ...named, postal_code: postalCode }
      const details = Object.fromEntries(
        Object.entries(given).filter(([, value]) => value !== undefined),
      )
      return change(context, ID, 'is changed', ({ tx, accountId, act }) =>
        editDebtor(tx, accountId, ID, details, act),
      )
    },
  }),

  defineCommand({
    name: 'debtors pause',
    summary: 'Send a customer no reminders until a date, or until resumed.',
    arguments: ['ID'],
    options: {
      reason: REASON,
      until: text('D', 'YYYY-MM-DD where the account is, or an instant with an offset.'),
    },
    async run({ ID, reason, until }, context) {
      const database = await context.database()
      const { timezone } = await getAccount(database.read, await accountOf(database, 'debtors', ID))
      const pause = { reason, until: until === undefined ? null : parseUntil(until, timezone) }
      return change(context, ID, 'is sent no reminders', ({ tx, accountId, act }) =>
        pauseChasing(tx, accountId, ID, pause, act),
      )
    },
  }),

  defineCommand({
    name: 'debtors resume',
    summary: 'End a pause: the customer is reminded again of what is due.',
    arguments: ['ID'],
    options: {},
    run: ({ ID }, context) =>
      change(context, ID, 'is reminded again', ({ tx, accountId, act }) =>
        resumeChasing(tx, accountId, ID, act),
      ),
  }),

  defineCommand({
    name: 'debtors chase-held',
    summary:
      'Have every open invoice of a customer chased that a payment, a rejected reminder or its age at arrival holds back. Disputed ones stay.',
    arguments: ['ID'],
    options: {},
    run: ({ ID }, context) =>
      change(context, ID, 'is reminded of all that is due', async ({ tx, accountId, act }) => {
        await resumeInvoicesOf(tx, accountId, ID, act)
        return getLockedDebtor(tx, accountId, ID)
      }),
  }),

  defineCommand({
    name: 'debtors clear-contact',
    summary: 'Say that the address of a customer works: after a bounce it is written to again.',
    arguments: ['ID'],
    options: {},
    run: ({ ID }, context) =>
      change(context, ID, 'is written to again', ({ tx, accountId, act }) =>
        clearSuppression(tx, accountId, ID, act),
      ),
  }),

  defineCommand({
    name: 'debtors archive',
    summary: 'Send a customer no reminders any more. What it owes stays, and can be paid.',
    arguments: ['ID'],
    options: {},
    run: ({ ID }, context) =>
      change(context, ID, 'is archived', ({ tx, accountId, act }) =>
        archiveDebtor(tx, accountId, ID, act),
      ),
  }),

  defineCommand({
    name: 'debtors restore',
    summary: 'Take a customer out of the archive.',
    arguments: ['ID'],
    options: {},
    run: ({ ID }, context) =>
      change(context, ID, 'is out of the archive', ({ tx, accountId, act }) =>
        restoreDebtor(tx, accountId, ID, act),
      ),
  }),
]

interface Changing {
  readonly tx: Parameters<typeof archiveDebtor>[0]
  readonly accountId: string
  readonly act: Parameters<typeof archiveDebtor>[3]
}

async function change(
  context: Context,
  id: string,
  done: string,
  work: (changing: Changing) => Promise<DebtorRow>,
): Promise<Output> {
  const database = await context.database()
  const accountId = await accountOf(database, 'debtors', id)
  const act = { actor: OPERATOR, now: context.now }
  const row = await database.transaction((tx) => work({ tx, accountId, act }))
  return { json: await represent(database, row, context.now), text: `${row.name} (${id}) ${done}.` }
}

async function represent({ read }: Database, row: DebtorRow, now: Date) {
  const { timezone } = await getAccount(read, row.account_id)
  const balances = await readBalances(read, row.account_id, [row.id], todayIn(timezone, now))
  return renderDebtor(row, balances.get(row.id) ?? [])
}

function parseUntil(given: string, timezone: string): Date {
  const until = isCalendarDate(given) ? startOfDay(given, timezone) : parseInstant(given)
  if (until !== undefined) return until
  throw new UsageError('--until is a date as YYYY-MM-DD, or an instant with an offset')
}
