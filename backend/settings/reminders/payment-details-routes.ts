/**
 * The routes of payment details. A change requires that the password was entered recently: otherwise, a person who
 * finds an open session could redirect the customers' payments to another bank account.
 */
import { lockAccount } from '../../accounts/accounts.ts'
import {
  PAYMENT_FIELDS,
  type PaymentDetails,
  readPaymentDetails,
} from '../../accounts/payment-details.ts'
import type { Reader } from '../../database/database.ts'
import { updateAccountTotals } from '../../debtors/ledger-totals.ts'
import { countAwaitingApproval } from '../../messages/approval-log.ts'
import {
  changePaymentDetails,
  listCurrenciesWithoutPaymentDetails,
} from '../../reminders/reminder-content.ts'
import { combineTexts } from '../forms/concurrent-edit.ts'
import { notFound, withFieldLabels } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import { listOf } from '../shell/list-query.ts'
import type { SessionPage } from '../shell/page-request.ts'
import {
  PAYMENT_WORDS,
  type PaymentValues,
  renderPaymentDetails,
  renderPaymentForm,
} from './payment-details-page.ts'

const PATH = '/settings/payment-details'
const ADMINS_ONLY = 'Only an Admin can change how customers pay.'

/**
 * Each list contains texts that belong together, such as those of a bank account. If two persons change texts of the
 * same list at the same time, the second person must confirm the change. Otherwise, the result could combine parts of
 * two bank accounts, and payments would go astray.
 */
const TEXTS_EDITED_TOGETHER = [
  ['account_holder', 'account_number', 'bank_code', 'bank_name'],
  ['payment_link'],
] as const

const NO_VALUES: PaymentValues = {
  currency: '',
  account_holder: '',
  account_number: '',
  bank_code: '',
  bank_name: '',
  payment_link: '',
}

export const paymentDetailsPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ session }, { database }) {
      const { read } = database
      const { id: accountId } = session.account
      // `listCurrenciesWithoutPaymentDetails` reads totals, which a worker would update only after a delay.
      await updateAccountTotals(database, accountId)
      const [details, currenciesWithoutDetails, awaitingApproval] = await Promise.all([
        readPaymentDetails(read, accountId),
        listCurrenciesWithoutPaymentDetails(read, accountId),
        countAwaitingApproval(read, accountId),
      ])
      return {
        json: {
          ...listOf(details.map(represent), null),
          currencies_without: currenciesWithoutDetails,
        },
        page: (frame) =>
          renderPaymentDetails(frame, {
            session,
            awaitingApproval,
            details,
            currenciesWithoutDetails,
          }),
      }
    },
  },
  {
    method: 'GET',
    path: `${PATH}/new`,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    async handle({ query }) {
      const currency = (query.get('currency') ?? '').slice(0, 3)
      const form = { values: { ...NO_VALUES, currency }, stored: NO_VALUES, isNew: true }
      return { page: (frame) => renderPaymentForm(frame, form) }
    },
  },
  {
    method: 'POST',
    path: PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    expected: { texts: ['currency', ...PAYMENT_FIELDS], ignoresUnchangedFields: true },
    async handle({ session, fields, actionContext, performAction }) {
      const { id: accountId } = session.account
      const currency = fields.text('currency').trim()
      const saved = await performAction('payment_details_changed', async (tx) => {
        await lockAccount(tx, accountId)
        const stored = valuesOf(await findDetails(tx, accountId, currency.toUpperCase()))
        const details = combineTexts(fields, stored, TEXTS_EDITED_TOGETHER)
        await changePaymentDetails(tx, accountId, currency, details, actionContext)
        return getDetails(tx, accountId, currency.toUpperCase())
      })
      return { json: represent(saved), location: PATH }
    },
    async rerender({ session, fields }, problem, { database: { read } }) {
      if (problem.status !== 422) return undefined
      const values = formValues(fields)
      const found = await findDetails(read, session.account.id, values.currency.toUpperCase())
      const form = { values, stored: valuesOf(found), isNew: found === undefined }
      const labeled = withFieldLabels(problem, PAYMENT_WORDS)
      return (frame) => renderPaymentForm(frame, form, labeled)
    },
  },
  {
    method: 'GET',
    path: `${PATH}/{id}`,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    async handle({ session, id: currency }, { database: { read } }) {
      const details = await getDetails(read, session.account.id, currency)
      const values = valuesOf(details)
      return {
        json: represent(details),
        page: (frame) => renderPaymentForm(frame, { values, stored: values, isNew: false }),
      }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/{id}/remove`,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    async handle({ session, id: currency, actionContext, performAction }) {
      await performAction('payment_details_removed', (tx) =>
        changePaymentDetails(tx, session.account.id, currency, null, actionContext),
      )
      return { location: PATH }
    },
  },
]

async function getDetails(
  reader: Reader,
  accountId: string,
  currency: string,
): Promise<PaymentDetails> {
  const details = await findDetails(reader, accountId, currency)
  return details ?? notFound('bank account or payment link in', currency)
}

async function findDetails(
  reader: Reader,
  accountId: string,
  currency: string,
): Promise<PaymentDetails | undefined> {
  const all = await readPaymentDetails(reader, accountId)
  return all.find((details) => details.currency === currency)
}

function valuesOf(details: PaymentDetails | undefined): PaymentValues {
  if (details === undefined) return NO_VALUES
  const { currency, account_holder, account_number, bank_code, bank_name, payment_link } = details
  return {
    currency,
    account_holder: account_holder ?? '',
    account_number: account_number ?? '',
    bank_code: bank_code ?? '',
    bank_name: bank_name ?? '',
    payment_link: payment_link ?? '',
  }
}

function formValues(fields: Fields): PaymentValues {
  return {
    currency: fields.textEvenIfUnchanged('currency').trim(),
    account_holder: fields.textEvenIfUnchanged('account_holder'),
    account_number: fields.textEvenIfUnchanged('account_number'),
    bank_code: fields.textEvenIfUnchanged('bank_code'),
    bank_name: fields.textEvenIfUnchanged('bank_name'),
    payment_link: fields.textEvenIfUnchanged('payment_link'),
  }
}

function represent(details: PaymentDetails) {
  return { object: 'payment_details', ...details }
}
