/** The demo account, which `npm start` creates once, with an Admin, a Member and a sample ledger. */
import { createAccount } from '../accounts/accounts.ts'
import type { ActionContext } from '../accounts/audit.ts'
import { setPaymentDetails } from '../accounts/payment-details.ts'
import { addDays, todayIn } from '../calendar/calendar.ts'
import type { Reader, Transaction } from '../database/database.ts'
import type { AccountRow, InvoiceRow } from '../database/tables.ts'
import { createDebtor } from '../debtors/debtors.ts'
import { createInvoice } from '../invoices/invoices.ts'
import { recordPayment } from '../payments/payments.ts'
import { createUser, findUserByEmail } from '../users/users.ts'
import { SAMPLE_LEDGER, type SampleInvoice } from './sample-ledger.ts'
import { writeSampleMessages } from './sample-messages.ts'

const TIMEZONE = 'Europe/Amsterdam'

/** The example IBAN of the Dutch banks' documentation. */
const BANK_ACCOUNT = { account_holder: 'Demo Trading', account_number: 'NL91ABNA0417164300' }

export const DEMO_LOGINS = [
  { role: 'admin', email: 'admin@demo.example' },
  { role: 'member', email: 'member@demo.example' },
] as const

/** Returns undefined if the demo account has not been created yet. */
export async function findDemoAccount(reader: Reader): Promise<AccountRow | undefined> {
  const user = await findUserByEmail(reader, DEMO_LOGINS[0].email)
  if (user === undefined) return undefined
  return reader
    .selectFrom('accounts')
    .selectAll()
    .where('id', '=', user.account_id)
    .executeTakeFirst()
}

/** Both logins have the same password. */
export async function createDemoAccount(
  tx: Transaction,
  passwordHash: string,
  actionContext: ActionContext,
): Promise<AccountRow> {
  const account = await createAccount(
    tx,
    { name: 'Demo Trading', timezone: TIMEZONE, defaultCurrency: 'EUR', isDemo: true },
    actionContext,
  )
  for (const { role, email } of DEMO_LOGINS) {
    await createUser(tx, { accountId: account.id, role, email, passwordHash }, actionContext)
  }
  await setPaymentDetails(tx, account.id, 'EUR', BANK_ACCOUNT, actionContext)
  for (const sample of SAMPLE_LEDGER) {
    const debtor = await createDebtor(
      tx,
      { accountId: account.id, isDemo: true },
      {
        name: sample.name,
        externalId: sample.externalId,
        email: sample.email,
        phone: null,
        language: null,
        timezone: null,
        currency: null,
        paymentTermsDays: sample.termsDays,
        address: {
          line1: null,
          line2: null,
          city: sample.city,
          region: null,
          postal_code: null,
          country: sample.country,
        },
        taxId: null,
        companyNumber: null,
        metadata: {},
      },
      actionContext.now,
    )
    for (const invoice of sample.invoices) {
      await createSampleInvoice(tx, account, debtor.id, invoice, actionContext)
    }
  }
  return account
}

/** Returns the open invoice in EUR with the largest amount due; undefined if no invoice in EUR is open. */
export async function findInvoiceForSampleCommand(
  reader: Reader,
  accountId: string,
): Promise<InvoiceRow | undefined> {
  return reader
    .selectFrom('invoices')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('status', 'in', ['open', 'partially_paid'])
    .where('currency', '=', 'EUR')
    .orderBy('amount_due', 'desc')
    .executeTakeFirst()
}

async function createSampleInvoice(
  tx: Transaction,
  account: AccountRow,
  debtorId: string,
  sample: SampleInvoice,
  { now }: ActionContext,
): Promise<void> {
  const today = todayIn(account.timezone, now)
  const issueDate = addDays(today, -sample.issuedDaysAgo)
  const lines = sample.lines?.map(({ tax, ...line }) => ({ ...line, taxAmount: tax })) ?? []
  const invoice = await createInvoice(
    tx,
    {
      accountId: account.id,
      timezone: account.timezone,
      paymentTermsDays: account.payment_terms_days,
    },
    {
      debtor: { id: debtorId },
      number: null,
      externalId: null,
      currency: sample.currency,
      amount: sample.amount,
      lines,
      issueDate,
      dueDate: addDays(issueDate, sample.termsDays),
      status: sample.draft ? 'draft' : 'open',
      poNumber: null,
      notes: null,
      paymentUrl: null,
      metadata: {},
    },
    now,
  )
  if (sample.paidDaysAgo !== undefined) await recordSamplePayment(tx, account, invoice, sample, now)
  await writeSampleMessages(tx, account, invoice.id, sample.messages ?? [], now)
}

async function recordSamplePayment(
  tx: Transaction,
  account: AccountRow,
  invoice: InvoiceRow,
  { currency, amount, paidAmount = amount, paidDaysAgo = 0 }: SampleInvoice,
  now: Date,
): Promise<void> {
  await recordPayment(
    tx,
    {
      accountId: account.id,
      timezone: account.timezone,
      source: 'import',
      recordedBy: { type: 'system', id: null, label: 'Sample data' },
      idempotencyKey: null,
      fingerprint: null,
      now,
    },
    {
      target: { kind: 'invoice', invoiceId: invoice.id },
      amount: paidAmount,
      currency,
      allowOverpayment: false,
      keepsRestOnAccount: false,
      receivedOn: addDays(todayIn(account.timezone, now), -paidDaysAgo),
      method: 'bank_transfer',
      reference: invoice.number,
      externalId: null,
      metadata: {},
    },
  )
}
