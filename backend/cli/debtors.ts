import { getAccount } from '../accounts/accounts.ts'
import type { ActionContext } from '../accounts/audit.ts'
import { isCalendarDate, parseInstant, startOfDay, todayIn } from '../calendar/calendar.ts'
import type { Database } from '../database/database.ts'
import type { DebtorRow, Transaction } from '../database/tables.ts'
import { readBalances } from '../debtors/balances.ts'
import { getLockedDebtor } from '../debtors/change.ts'
import { archiveDebtor, pauseChasing, restoreDebtor, resumeChasing } from '../debtors/chasing.ts'
import { clearSuppression } from '../debtors/contactability.ts'
import { representDebtor } from '../debtors/representation.ts'
import { resumeInvoicesOf } from '../invoices/actions.ts'
import { changeDebtorDetails } from '../reminders/reminder-content.ts'
import {
  type Command,
  type Context,
  defineCommand,
  type Output,
  REASON,
  UsageError,
} from './command.ts'
import { accountIdOf } from './owner.ts'

const textOption = (placeholder: string, description: string) =>
  ({ type: 'string', value: placeholder, description }) as const

export const debtorCommands: readonly Command[] = [
  defineCommand({
    name: 'debtors edit',
    summary:
      'Change a customer’s name, contact details, address, language or time zone. Fields without an option stay as they are. An empty value deletes the field; the name cannot be deleted.',
    arguments: ['ID'],
    options: {
      name: textOption('N', 'The name of the customer.'),
      email: textOption(
        'E',
        'The address that reminders are sent to. If reminders to the old address are blocked, or mail to the new address has bounced, run debtors clear-contact as well: a new address does not end a block.',
      ),
      phone: textOption('P', 'The phone number in E.164 form, e.g. +31205550142.'),
      language: textOption('L', 'The language of mails to the customer, as a BCP 47 tag, e.g. nl.'),
      timezone: textOption(
        'T',
        'The IANA name of the customer’s time zone. Without one, the account’s time zone applies.',
      ),
      line1: textOption('A', 'The first line of the address, with street and number.'),
      line2: textOption('A', 'The second line of the address.'),
      city: textOption('C', 'The city.'),
      region: textOption('R', 'The region or state.'),
      'postal-code': textOption('P', 'The postal code.'),
      country: textOption('C', 'The ISO 3166-1 code of the country, e.g. NL.'),
    },
    async run({ ID, 'postal-code': postalCode, ...named }, context) {
      const values = { ...named, postal_code: postalCode }
      const details = Object.fromEntries(
        Object.entries(values).filter(([, value]) => value !== undefined),
      )
      if (Object.keys(details).length === 0) throw new UsageError('At least one option is required')
      return change(context, ID, 'was changed', (tx, accountId, actionContext) =>
        changeDebtorDetails(tx, accountId, ID, details, actionContext),
      )
    },
  }),

  defineCommand({
    name: 'debtors pause',
    summary: 'Stop reminders to a customer, until a date or until you run debtors resume.',
    arguments: ['ID'],
    options: {
      reason: REASON,
      until: textOption(
        'D',
        'When the pause ends: a date as YYYY-MM-DD in the account’s time zone, or a time with a UTC offset.',
      ),
    },
    async run({ ID, reason, until }, context) {
      const database = await context.database()
      const { timezone } = await getAccount(
        database.read,
        await accountIdOf(database, 'debtors', ID),
      )
      const pause = { reason, until: until === undefined ? null : parseUntil(until, timezone) }
      const end = until === undefined ? 'until a person resumes them' : `until ${until}`
      return change(context, ID, `receives no reminders ${end}`, (tx, accountId, actionContext) =>
        pauseChasing(tx, accountId, ID, pause, actionContext),
      )
    },
  }),

  defineCommand({
    name: 'debtors resume',
    summary: 'End a pause: reminders to the customer start again.',
    arguments: ['ID'],
    options: {},
    run: ({ ID }, context) =>
      change(context, ID, 'is no longer paused', (tx, accountId, actionContext) =>
        resumeChasing(tx, accountId, ID, actionContext),
      ),
  }),

  defineCommand({
    name: 'debtors chase-held',
    summary:
      'Resume the blocked reminders about all open invoices of a customer. Reminders are blocked after a partial payment, after a person rejected a reminder, or if the invoice was already past due when it was created with chase_if_overdue: false. Disputed invoices stay blocked. A customer that is paused or archived still receives no reminders.',
    arguments: ['ID'],
    options: {},
    run: ({ ID }, context) =>
      change(
        context,
        ID,
        'receives reminders about its blocked invoices again. Disputed invoices stay blocked, and a customer that is paused or archived still receives no reminders',
        async (tx, accountId, actionContext) => {
          await resumeInvoicesOf(tx, accountId, ID, actionContext)
          return getLockedDebtor(tx, accountId, ID)
        },
      ),
  }),

  defineCommand({
    name: 'debtors clear-contact',
    summary:
      'Confirm that a customer’s e-mail address works. After a bounce, no mail is sent to the address until this command, or an Admin in Settings, confirms that the address works. The confirmation also applies to all other customers with the address.',
    arguments: ['ID'],
    options: {},
    run: ({ ID }, context) =>
      change(context, ID, 'is no longer blocked by a bounce', (tx, accountId, actionContext) =>
        clearSuppression(tx, accountId, ID, actionContext),
      ),
  }),

  defineCommand({
    name: 'debtors archive',
    summary:
      'Archive a customer: reminders to the customer stop. Its invoices remain and can still be paid.',
    arguments: ['ID'],
    options: {},
    run: ({ ID }, context) =>
      change(context, ID, 'was archived', (tx, accountId, actionContext) =>
        archiveDebtor(tx, accountId, ID, actionContext),
      ),
  }),

  defineCommand({
    name: 'debtors restore',
    summary: 'Restore an archived customer: reminders to the customer start again.',
    arguments: ['ID'],
    options: {},
    run: ({ ID }, context) =>
      change(context, ID, 'was restored', (tx, accountId, actionContext) =>
        restoreDebtor(tx, accountId, ID, actionContext),
      ),
  }),
]

/** `outcome` follows the name and id of the customer in the output, e.g. `was archived`. */
async function change(
  context: Context,
  id: string,
  outcome: string,
  work: (tx: Transaction, accountId: string, actionContext: ActionContext) => Promise<DebtorRow>,
): Promise<Output> {
  const database = await context.database()
  const accountId = await accountIdOf(database, 'debtors', id)
  const row = await context.performAction((tx, actionContext) => work(tx, accountId, actionContext))
  return {
    json: await represent(database, row, context.clock()),
    text: `${row.name} (${id}) ${outcome}.`,
  }
}

async function represent({ read }: Database, row: DebtorRow, now: Date) {
  const { timezone } = await getAccount(read, row.account_id)
  const balances = await readBalances(read, row.account_id, [row.id], todayIn(timezone, now))
  return representDebtor(row, balances.get(row.id) ?? [])
}

function parseUntil(text: string, timezone: string): Date {
  const until = isCalendarDate(text) ? startOfDay(text, timezone) : parseInstant(text)
  if (until !== undefined) return until
  throw new UsageError('--until must be a date as YYYY-MM-DD, or a time with a UTC offset')
}
