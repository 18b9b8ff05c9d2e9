/** The demo account of `npm start`: made once, with an Admin, a Member and a sample ledger. */
import { createId } from '../../shared/id.ts'
import { createAccount } from '../accounts/accounts.ts'
import type { Act } from '../accounts/audit.ts'
import { addDays, todayIn } from '../calendar/calendar.ts'
import type { Reader, Transaction } from '../database/database.ts'
import type { AccountRow, InvoiceRow, MessageRow } from '../database/tables.ts'
import { createDebtor } from '../debtors/debtors.ts'
import { createInvoice } from '../invoices/invoices.ts'
import { recordPayment } from '../payments/payments.ts'
import { createUser, findUserByEmail } from '../users/users.ts'
import { SAMPLE_LEDGER, type SampleInvoice, type SampleMessage } from './sample-ledger.ts'

const DAY_MS = 86_400_000
const TIMEZONE = 'Europe/Amsterdam'

export const DEMO_LOGINS = [
  { role: 'admin', email: 'admin@demo.example' },
  { role: 'member', email: 'member@demo.example' },
] as const

/** The demo account, where it was made before. */
export async function findDemoAccount(reader: Reader): Promise<AccountRow | undefined> {
  const user = await findUserByEmail(reader, DEMO_LOGINS[0].email)
  if (user === undefined) return undefined
  return reader
    .selectFrom('accounts')
    .selectAll()
    .where('id', '=', user.account_id)
    .executeTakeFirst()
}

/** `passwordHash` is that of both logins. */
export async function createDemoAccount(
  tx: Transaction,
  passwordHash: string,
  act: Act,
): Promise<AccountRow> {
  const account = await createAccount(
    tx,
    { name: 'Demo Trading', timezone: TIMEZONE, defaultCurrency: 'EUR', isDemo: true },
    act,
  )
  for (const { role, email } of DEMO_LOGINS) {
    await createUser(tx, { accountId: account.id, role, email, passwordHash }, act)
  }
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
      act.now,
    )
    for (const invoice of sample.invoices) {
      await createSampleInvoice(tx, account, debtor.id, invoice, act)
    }
  }
  return account
}

/** An invoice of the demo account on which something is owed: what a first payment can pay. */
export async function findOpenInvoice(reader: Reader, accountId: string): Promise<InvoiceRow> {
  return reader
    .selectFrom('invoices')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('status', 'in', ['open', 'partially_paid'])
    .where('currency', '=', 'EUR')
    .orderBy('amount_due', 'desc')
    .executeTakeFirstOrThrow()
}

async function createSampleInvoice(
  tx: Transaction,
  account: AccountRow,
  debtorId: string,
  sample: SampleInvoice,
  { now }: Act,
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
  for (const message of sample.messages ?? []) await logSampleMessage(tx, invoice, message, now)
  if (sample.paidDaysAgo === undefined) return
  await recordPayment(
    tx,
    {
      accountId: account.id,
      timezone: account.timezone,
      source: 'import',
      recordedBy: { type: 'system', id: null, label: 'Sample data' },
      idempotencyKey: null,
      now,
    },
    {
      target: { kind: 'invoice', invoiceId: invoice.id },
      amount: sample.paid ?? sample.amount,
      currency: sample.currency,
      allowOverpayment: false,
      receivedOn: addDays(today, -sample.paidDaysAgo),
      method: 'bank_transfer',
      reference: invoice.number,
      externalId: null,
      metadata: {},
    },
  )
}

async function logSampleMessage(
  tx: Transaction,
  invoice: InvoiceRow,
  { daysAgo, stage, status }: SampleMessage,
  now: Date,
): Promise<void> {
  const at = new Date(now.getTime() - daysAgo * DAY_MS).toISOString()
  const left = status === 'delivered' || status === 'bounced'
  const row: MessageRow = {
    id: createId('msg'),
    account_id: invoice.account_id,
    debtor_id: invoice.debtor_id,
    channel: 'email',
    direction: 'outbound',
    kind: 'reminder',
    stage,
    status,
    suppression_reason: status === 'suppressed' ? 'no_contact' : null,
    suppression_detail: status === 'suppressed' ? 'The customer has no e-mail address.' : null,
    approval_required: stage === 'firm' || stage === 'final' ? 1 : 0,
    approval_status: status === 'awaiting_approval' ? 'pending' : null,
    approval_decided_by: null,
    approval_decided_at: null,
    recipient: status === 'suppressed' ? null : 'accounts@customer.example',
    subject: `Invoice ${invoice.number}`,
    body: `A reminder of invoice ${invoice.number}, due on ${invoice.due_date}.`,
    amount_due: invoice.amount_due,
    currency: invoice.currency,
    days_past_due: null,
    provider_message_id: null,
    delivered_at: status === 'delivered' ? at : null,
    bounce_type: status === 'bounced' ? 'hard' : null,
    bounce_code: status === 'bounced' ? '5.1.1' : null,
    soft_bounces: 0,
    scheduled_for: at,
    sent_at: left ? at : null,
    created_at: at,
    updated_at: at,
  }
  await tx.insertInto('messages').values(row).execute()
  await tx
    .insertInto('message_invoices')
    .values({
      message_id: row.id,
      position: 0,
      account_id: row.account_id,
      invoice_id: invoice.id,
    })
    .execute()
}
