import { changeAccountProfile } from '../accounts/account-profile.ts'
import {
  ACCOUNT_STATUSES,
  createAccount,
  isReadOnly,
  listAccounts,
  setScopeAllowance,
  setStatus,
} from '../accounts/accounts.ts'
import { APPLY_CREDIT, setApplyCredit } from '../accounts/apply-credit.ts'
import { OPERATOR } from '../accounts/audit.ts'
import { setReplyAddress } from '../accounts/reply-address.ts'
import { readScopes, SCOPES } from '../accounts/scopes.ts'
import type { AccountRow } from '../database/tables.ts'
import { type Command, defineCommand, renderTable, splitList, UsageError } from './command.ts'

export const accountCommands: readonly Command[] = [
  defineCommand({
    name: 'accounts create',
    summary: 'Create an account.',
    arguments: [],
    options: {
      name: { type: 'string', required: true, value: 'N', description: 'Its name.' },
      timezone: { type: 'string', value: 'T', description: 'IANA name; UTC unless given.' },
      currency: { type: 'string', value: 'C', description: 'ISO 4217 code; EUR unless given.' },
      demo: { type: 'boolean', description: 'Sample data: no debtor is ever contacted.' },
    },
    async run({ name, timezone, currency, demo }, context) {
      const input = {
        name,
        isDemo: demo,
        ...(timezone === undefined ? {} : { timezone }),
        ...(currency === undefined ? {} : { defaultCurrency: currency }),
      }
      const account = await (await context.database()).transaction((tx) =>
        createAccount(tx, input, { actor: OPERATOR, now: context.now }),
      )
      return { json: represent(account), text: `Created account ${account.id}, ${account.name}.` }
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
            scopes: allowanceOf(account)?.join(',') ?? 'all',
          })),
        ),
      }
    },
  }),

  defineCommand({
    name: 'accounts set-status',
    summary: `Set the state of an account: ${ACCOUNT_STATUSES.join(', ')}. The API's writes are refused in ${ACCOUNT_STATUSES.filter(isReadOnly).join(', ')}.`,
    arguments: ['ID', 'STATUS'],
    options: {},
    async run({ ID, STATUS }, context) {
      const status = ACCOUNT_STATUSES.find((candidate) => candidate === STATUS)
      if (status === undefined) {
        throw new UsageError(`STATUS is one of ${ACCOUNT_STATUSES.join(', ')}, not ${STATUS}`)
      }
      const account = await (await context.database()).transaction((tx) =>
        setStatus(tx, ID, status, { actor: OPERATOR, now: context.now }),
      )
      const effect = isReadOnly(status) ? 'writes are refused' : 'writes are accepted'
      return { json: represent(account), text: `Account ${ID} is ${status}: ${effect}.` }
    },
  }),

  defineCommand({
    name: 'accounts change',
    summary: 'Change the account itself. Options that are left out change nothing.',
    arguments: ['ID'],
    options: {
      name: { type: 'string', value: 'N', description: 'Its name.' },
      timezone: { type: 'string', value: 'T', description: 'IANA name.' },
      currency: { type: 'string', value: 'C', description: 'ISO 4217 code.' },
      'payment-terms': { type: 'string', value: 'DAYS', description: 'From 0 to 365.' },
    },
    async run({ ID, name, timezone, currency, 'payment-terms': terms }, context) {
      const input = {
        ...(name !== undefined && { name }),
        ...(timezone !== undefined && { timezone }),
        ...(currency !== undefined && { default_currency: currency }),
        ...(terms !== undefined && { payment_terms_days: Number(terms) }),
      }
      if (Object.keys(input).length === 0) throw new UsageError('say what to change')
      const account = await (await context.database()).transaction((tx) =>
        changeAccountProfile(tx, ID, input, { actor: OPERATOR, now: context.now }),
      )
      return {
        json: represent(account),
        text: `Account ${ID} is ${account.name}: ${account.timezone}, ${account.default_currency}, due after ${account.payment_terms_days} days.`,
      }
    },
  }),

  defineCommand({
    name: 'accounts set-scopes',
    summary: `Set what all keys of an account may do at most: scopes with commas between (${SCOPES.join(', ')}), all, or none.`,
    arguments: ['ID', 'SCOPES'],
    options: {},
    async run({ ID, SCOPES: text }, context) {
      const scopes = text === 'all' ? null : text === 'none' ? [] : splitList(text)
      const account = await (await context.database()).transaction((tx) =>
        setScopeAllowance(tx, ID, scopes, { actor: OPERATOR, now: context.now }),
      )
      const allowed = allowanceOf(account)
      return {
        json: represent(account),
        text: `Keys of account ${ID} may use ${allowed === null ? 'all scopes they were granted' : allowed.join(', ') || 'no scope'}.`,
      }
    },
  }),

  defineCommand({
    name: 'accounts set-reply-to',
    summary:
      'Set where customers’ replies to reminders go in addition to MAIL_FROM: an e-mail address, or none.',
    arguments: ['ID', 'EMAIL'],
    options: {},
    async run({ ID, EMAIL }, context) {
      const address = EMAIL === 'none' ? null : EMAIL
      const account = await (await context.database()).transaction((tx) =>
        setReplyAddress(tx, ID, address, { actor: OPERATOR, now: context.now }),
      )
      const also = account.reply_to === null ? '' : ` and to ${account.reply_to}`
      return { json: represent(account), text: `Answers go to MAIL_FROM${also}.` }
    },
  }),

  defineCommand({
    name: 'accounts set-apply-credit',
    summary: `Set what becomes of money that a payment allocates to no invoice: ${APPLY_CREDIT.join(' or ')}.`,
    arguments: ['ID', 'MODE'],
    options: {},
    async run({ ID, MODE }, context) {
      const account = await (await context.database()).transaction((tx) =>
        setApplyCredit(tx, ID, MODE, { actor: OPERATOR, now: context.now }),
      )
      const effect =
        account.apply_credit === 'manual'
          ? 'stays on account until a person allocates it'
          : 'is allocated to open invoices, the oldest due date first'
      return { json: represent(account), text: `Money on account ${effect}.` }
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

function allowanceOf({ scope_allowance }: AccountRow) {
  return scope_allowance === null ? null : readScopes(scope_allowance)
}
