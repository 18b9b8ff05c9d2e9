import {
  ACCOUNT_STATUSES,
  createAccount,
  isReadOnly,
  listAccounts,
  setScopeAllowance,
  setStatus,
} from '../accounts/accounts.ts'
import { setApplyCredit } from '../accounts/apply-credit.ts'
import { setReplyAddress } from '../accounts/reply-address.ts'
import { readScopes, SCOPES } from '../accounts/scopes.ts'
import type { AccountRow } from '../database/tables.ts'
import { changeProfile } from '../reminders/reminder-content.ts'
import { withFullStop } from '../validation/full-stop.ts'
import { type Command, defineCommand, renderTable, UsageError } from './command.ts'
import { parseListOrNone, parseWholeNumber } from './input/option-values.ts'

const READ_ONLY_EFFECT =
  'no reminders are sent, API calls that write are rejected, and customers, invoices and payments cannot be changed in Settings. Reminders can still be paused, and disputes recorded'

export const accountCommands: readonly Command[] = [
  defineCommand({
    name: 'accounts create',
    summary: 'Create an account.',
    arguments: [],
    options: {
      name: { type: 'string', required: true, value: 'N', description: 'The name of the account.' },
      timezone: {
        type: 'string',
        value: 'T',
        description: 'The IANA name of the account’s time zone. The default is UTC.',
      },
      currency: {
        type: 'string',
        value: 'C',
        description: 'The ISO 4217 code of the account’s default currency. The default is EUR.',
      },
      demo: {
        type: 'boolean',
        description: 'The account is for sample data: no mail is ever sent to its customers.',
      },
    },
    async run({ name, timezone, currency, demo }, context) {
      const input = {
        name,
        isDemo: demo,
        ...(timezone === undefined ? {} : { timezone }),
        ...(currency === undefined ? {} : { defaultCurrency: currency }),
      }
      const account = await context.performAction((tx, actionContext) =>
        createAccount(tx, input, actionContext),
      )
      return {
        json: represent(account),
        text: withFullStop(`Created account ${account.id}, ${account.name}`),
      }
    },
  }),

  defineCommand({
    name: 'accounts list',
    summary: 'List all accounts.',
    arguments: [],
    options: {},
    async run(_values, context) {
      const accounts = await listAccounts((await context.database()).read)
      return {
        json: accounts.map(represent),
        text: renderTable(
          accounts.map((account) => ({
            id: account.id,
            name: account.name,
            status: account.status,
            timezone: account.timezone,
            currency: account.default_currency,
            scopes: renderScopeAllowance(account),
          })),
        ),
      }
    },
  }),

  defineCommand({
    name: 'accounts set-status',
    summary: `Set the status of an account: ${ACCOUNT_STATUSES.join(', ')}. An account that is ${ACCOUNT_STATUSES.filter(isReadOnly).join(' or ')} is read-only: ${READ_ONLY_EFFECT}.`,
    arguments: ['ID', 'STATUS'],
    options: {},
    async run({ ID, STATUS }, context) {
      const status = ACCOUNT_STATUSES.find((candidate) => candidate === STATUS)
      if (status === undefined) {
        throw new UsageError(`STATUS must be one of ${ACCOUNT_STATUSES.join(', ')}, not ${STATUS}`)
      }
      const account = await context.performAction((tx, actionContext) =>
        setStatus(tx, ID, status, actionContext),
      )
      const effect = isReadOnly(status)
        ? READ_ONLY_EFFECT
        : 'its customers, invoices and payments can be changed'
      return { json: represent(account), text: `Account ${ID} is ${status}: ${effect}.` }
    },
  }),

  defineCommand({
    name: 'accounts change',
    summary:
      'Change the name, time zone, default currency or payment terms of an account. Fields without an option stay as they are.',
    arguments: ['ID'],
    options: {
      name: { type: 'string', value: 'N', description: 'The new name.' },
      timezone: { type: 'string', value: 'T', description: 'The IANA name of the new time zone.' },
      currency: {
        type: 'string',
        value: 'C',
        description: 'The ISO 4217 code of the new default currency.',
      },
      'payment-terms': {
        type: 'string',
        value: 'DAYS',
        description:
          'From 0 to 365: an invoice without a due date is due this many days after its issue date.',
      },
    },
    async run({ ID, name, timezone, currency, 'payment-terms': terms }, context) {
      const input = {
        ...(name !== undefined && { name }),
        ...(timezone !== undefined && { timezone }),
        ...(currency !== undefined && { default_currency: currency }),
        ...(terms !== undefined && {
          payment_terms_days: parseWholeNumber('--payment-terms', terms),
        }),
      }
      if (Object.keys(input).length === 0) throw new UsageError('At least one option is required')
      const account = await context.performAction((tx, actionContext) =>
        changeProfile(tx, ID, input, actionContext),
      )
      return {
        json: represent(account),
        text: `Changed account ${ID}. Its name is ${account.name}, its time zone ${account.timezone}, its default currency ${account.default_currency}, and its payment terms are ${account.payment_terms_days} days.`,
      }
    },
  }),

  defineCommand({
    name: 'accounts set-scopes',
    summary: `Limit the scopes that the keys of an account can use: a list separated by commas (${SCOPES.join(', ')}), all, or none.`,
    arguments: ['ID', 'SCOPES'],
    options: {},
    async run({ ID, SCOPES: text }, context) {
      const scopes = text === 'all' ? null : parseListOrNone('SCOPES', text)
      const account = await context.performAction((tx, actionContext) =>
        setScopeAllowance(tx, ID, scopes, actionContext),
      )
      const allowed = allowanceOf(account)
      return {
        json: represent(account),
        text: `The keys of account ${ID} can use ${allowed === null ? 'all scopes that they were granted' : allowed.length === 0 ? 'no scope' : `only those of their scopes that are in this list: ${allowed.join(', ')}`}.`,
      }
    },
  }),

  defineCommand({
    name: 'accounts set-reply-to',
    summary:
      'Set a second address for replies to reminders, in addition to MAIL_FROM: an e-mail address, or none.',
    arguments: ['ID', 'EMAIL'],
    options: {},
    async run({ ID, EMAIL }, context) {
      const address = EMAIL === 'none' ? null : EMAIL
      const account = await context.performAction((tx, actionContext) =>
        setReplyAddress(tx, ID, address, actionContext),
      )
      const also = account.reply_to === null ? '' : ` and to ${account.reply_to}`
      return { json: represent(account), text: `Replies to reminders go to MAIL_FROM${also}.` }
    },
  }),

  defineCommand({
    name: 'accounts set-apply-credit',
    summary:
      'Set how the unallocated money of new payments is treated: manual leaves it on account until a person allocates it; oldest_first allocates it to the open invoices with the earliest due dates.',
    arguments: ['ID', 'MODE'],
    options: {},
    async run({ ID, MODE }, context) {
      const account = await context.performAction((tx, actionContext) =>
        setApplyCredit(tx, ID, MODE, actionContext),
      )
      const effect =
        account.apply_credit === 'manual'
          ? 'stays on account until a person allocates it'
          : 'is allocated to open invoices, those with the earliest due date first'
      return { json: represent(account), text: `The unallocated money of new payments ${effect}.` }
    },
  }),
]

function represent(account: AccountRow) {
  return {
    id: account.id,
    name: account.name,
    status: account.status,
    read_only: isReadOnly(account.status),
    timezone: account.timezone,
    default_currency: account.default_currency,
    payment_terms_days: account.payment_terms_days,
    is_demo: account.is_demo === 1,
    reply_to: account.reply_to,
    apply_credit: account.apply_credit,
    scope_allowance: allowanceOf(account),
    created_at: account.created_at,
    updated_at: account.updated_at,
  }
}

function renderScopeAllowance(account: AccountRow): string {
  const scopes = allowanceOf(account)
  if (scopes === null) return 'all'
  return scopes.length === 0 ? 'none' : scopes.join(',')
}

function allowanceOf({ scope_allowance }: AccountRow) {
  return scope_allowance === null ? null : readScopes(scope_allowance)
}
