/**
 * The routes of payment details. A change requires that the password was entered recently: otherwise, a person who
 * finds an open session could redirect the customers' payments to another bank account.
 */
import {
  PAYMENT_FIELDS,
  type PaymentDetails,
  readPaymentDetails,
} from '../../accounts/payment-details.ts'
import type { Reader } from '../../database/database.ts'
import { updateTotalsOf } from '../../debtors/ledger-totals.ts'
import { countAwaitingApproval } from '../../messages/approval-log.ts'
import {
  changePaymentDetails,
  listCurrenciesWithoutPaymentDetails,
} from '../../reminders/reminder-content.ts'
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

export const paymentDetailsPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ session }, { database }) {
      const { read } = database
      const { id: accountId } = session.account
      await updateTotalsOf(database, accountId)
      const [details, missing, awaitingApproval] = await Promise.all([
        readPaymentDetails(read, accountId),
        listCurrenciesWithoutPaymentDetails(read, accountId),
        countAwaitingApproval(read, accountId),
      ])
      return {
        json: { ...listOf(details.map(represent), null), currencies_without: missing },
        page: (frame) =>
          renderPaymentDetails(frame, { session, awaitingApproval, details, missing }),
      }
    },
  },
  {
    method: 'GET',
    path: `${PATH}/new`,
    adminsOnly: ADMINS_ONLY,
    needsRecentPassword: true,
    async handle({ query }) {
      const currency = (query.get('currency') ?? '').slice(0, 3)
      const values = valuesOf({ currency })
      return { page: (frame) => renderPaymentForm(frame, { values, isNew: true }) }
    },
  },
  {
    method: 'POST',
    path: PATH,
    adminsOnly: ADMINS_ONLY,
    needsRecentPassword: true,
    expected: { texts: ['currency', ...PAYMENT_FIELDS] },
    async handle({ session, fields, actionContext, performAction }) {
      const { id: accountId } = session.account
      const currency = fields.text('currency').trim()
      const saved = await performAction('payment_details_changed', async (tx) => {
        await changePaymentDetails(tx, accountId, currency, sentValues(fields), actionContext)
        return getDetails(tx, accountId, currency.toUpperCase())
      })
      return { json: represent(saved), location: PATH }
    },
    async rerender({ session, fields }, problem, { database: { read } }) {
      if (problem.status !== 422) return undefined
      const values = sentValues(fields)
      const known = await readPaymentDetails(read, session.account.id)
      const isNew = known.every(({ currency }) => currency !== values.currency)
      const labeled = withFieldLabels(problem, PAYMENT_WORDS)
      return (frame) => renderPaymentForm(frame, { values, isNew }, labeled)
    },
  },
  {
    method: 'GET',
    path: `${PATH}/{id}`,
    adminsOnly: ADMINS_ONLY,
    needsRecentPassword: true,
    async handle({ session, id }, { database: { read } }) {
      const details = await getDetails(read, session.account.id, id)
      const values = valuesOf(details)
      return {
        json: represent(details),
        page: (frame) => renderPaymentForm(frame, { values, isNew: false }),
      }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/{id}/remove`,
    adminsOnly: ADMINS_ONLY,
    needsRecentPassword: true,
    async handle({ session, id, actionContext, performAction }) {
      await performAction('payment_details_removed', (tx) =>
        changePaymentDetails(tx, session.account.id, id, null, actionContext),
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
  const all = await readPaymentDetails(reader, accountId)
  return (
    all.find((details) => details.currency === currency) ??
    notFound('bank account or payment link in', currency)
  )
}

function valuesOf(details: Partial<PaymentDetails>): PaymentValues {
  const { account_holder, account_number, bank_code, bank_name, payment_link } = details
  return {
    currency: details.currency ?? '',
    account_holder: account_holder ?? '',
    account_number: account_number ?? '',
    bank_code: bank_code ?? '',
    bank_name: bank_name ?? '',
    payment_link: payment_link ?? '',
  }
}

function sentValues(fields: Fields): PaymentValues {
  return {
    currency: fields.text('currency').trim(),
    account_holder: fields.text('account_holder'),
    account_number: fields.text('account_number'),
    bank_code: fields.text('bank_code'),
    bank_name: fields.text('bank_name'),
    payment_link: fields.text('payment_link'),
  }
}

function represent(details: PaymentDetails) {
  return { object: 'payment_details', ...details }
}
