import type { LogoProperties } from '../../accounts/logo.ts'
import { formatIban, type PaymentDetails } from '../../accounts/payment-details.ts'
import type { ReminderStage } from '../../database/tables.ts'
import { moneyText } from '../../money/money-text.ts'
import { toOneLine } from '../addresses.ts'
import { chooseLanguage, LANGUAGES, type Language } from './languages.ts'
import {
  type MailBody,
  type MailPayment,
  type MailRow,
  renderMailHtml,
  renderMailText,
} from './mail-body.ts'
import { REMINDER_WORDS } from './reminder-words/by-language.ts'
import type { ReminderWords } from './reminder-words/words.ts'
import { defaultWording, fillIn, type Variable, type Wording } from './wording.ts'

export interface ReminderContent {
  /** A BCP 47 tag. If it is null, or the language is not available, the reminder is in English. */
  readonly language: string | null
  readonly stage: 'courtesy' | ReminderStage
  readonly creditor: {
    /** The sender's name (see `senderNameOf`). */
    readonly name: string
    readonly logo: LogoProperties | undefined
    /** The address for questions; null if customers can only reply to the mail. */
    readonly replyTo: string | null
  }
  readonly debtor: { readonly name: string }
  /** At least one. */
  readonly invoices: readonly ReminderInvoice[]
  /** If it is undefined, the default wording applies. */
  readonly wording: Wording | undefined
  /** How to pay in the currencies of the invoices. */
  readonly payment: readonly PaymentDetails[]
  /** If it is null, the reminder has no unsubscribe link. */
  readonly unsubscribeUrl: string | null
}

export interface ReminderInvoice {
  readonly number: string
  /** A calendar date. */
  readonly dueDate: string
  /** In minor units. */
  readonly amountDue: number
  /** The part of `amountDue` that money on account covers, in minor units; absent or 0 if it covers nothing. */
  readonly onAccount?: number
  readonly currency: string
  /** 0 or less if the invoice is not overdue. */
  readonly daysPastDue: number
  readonly paymentUrl: string | null
}

export interface ReminderText {
  readonly subject: string
  readonly text: string
  readonly html: string
}

const STAGE_TONES = {
  courtesy: 'calm',
  friendly: 'calm',
  reminder: 'plain',
  firm: 'firm',
  final: 'grave',
} as const satisfies Record<ReminderContent['stage'], MailBody['tone']>

export function writeReminder(content: ReminderContent): ReminderText {
  const body = composeReminder(content)
  return {
    subject: body.subject ?? body.title,
    text: renderMailText(body),
    html: renderMailHtml(body),
  }
}

export function composeReminder({
  stage,
  creditor,
  debtor,
  invoices,
  ...content
}: ReminderContent): MailBody {
  const language = chooseLanguage(content.language)
  const words = REMINDER_WORDS[language]
  const name = toOneLine(creditor.name)
  const [first] = invoices
  const isOneInvoice = first !== undefined && invoices.length === 1
  const invoicesText = isOneInvoice
    ? words.invoice(toOneLine(first.number))
    : words.invoices(invoices.length)
  const actionUrl = actionUrlOf(invoices, content.payment)
  const wording = content.wording ?? defaultWording(stage, language)
  const values = {
    customer: toOneLine(debtor.name),
    invoices: invoicesText,
    sender: name,
    ...invoiceVariablesOf(invoices, language, words),
  }
  const title = toOneLine(fillIn(wording.subject, values))
  const paragraphs = (template: string) =>
    template === '' ? [] : template.split('\n\n').map((part) => fillIn(part, values))
  const opening = isOneInvoice ? wording.opening : wording.opening_several
  return {
    language,
    tone: STAGE_TONES[stage],
    sender: name,
    logo: creditor.logo,
    title,
    subject: `${title} – ${name}`,
    greeting: fillIn(wording.greeting, values),
    opening: [...paragraphs(opening), ...onAccountSentences(invoices, language, words)],
    table: {
      caption: words.tableCaption,
      headings: words.tableHeadings,
      rows: invoices.map((invoice) => rowOf(invoice, language, words, !isOneInvoice)),
      totals: totalsOf(invoices, language, words),
    },
    action: actionUrl === null ? undefined : { label: words.payOnline, url: actionUrl },
    payment: content.payment
      .map((details) => paymentOf(details, invoices, actionUrl, words))
      .filter(({ lines, link }) => lines.length > 0 || link !== undefined),
    closing: [...paragraphs(wording.closing), words.questions(creditor.replyTo)],
    signOff: [...fillIn(wording.sign_off, values).split('\n'), name],
    footer: [words.onBehalf(name)],
    unsubscribe:
      content.unsubscribeUrl === null
        ? undefined
        : { label: words.unsubscribe, url: content.unsubscribeUrl },
  }
}

/**
 * Returns the variables of the wording that depend on the invoices. `due_date` and `overdue` concern the invoice with
 * the earliest due date.
 */
function invoiceVariablesOf(
  invoices: readonly ReminderInvoice[],
  language: Language,
  words: ReminderWords,
): Pick<Record<Variable, string>, 'amount' | 'due_date' | 'overdue'> {
  const dueDates = invoices.map(({ dueDate }) => dueDate).sort()
  return {
    amount: sumsOf(invoices)
      .map(({ currency, due, onAccount }) => moneyText(Number(due - onAccount), currency, language))
      .join(' + '),
    due_date: dateText(dueDates[0] ?? '', language),
    overdue: words.relativeDueDate(Math.max(...invoices.map(({ daysPastDue }) => daysPastDue))),
  }
}

/**
 * Returns the URL of the payment button: the payment link of a single invoice, or the creditor's payment link if no
 * invoice has its own and all have the same currency. Returns null if the mail has no button.
 */
function actionUrlOf(
  invoices: readonly ReminderInvoice[],
  payment: readonly PaymentDetails[],
): string | null {
  const [first] = invoices
  if (first !== undefined && invoices.length === 1 && first.paymentUrl !== null) {
    return first.paymentUrl
  }
  const hasInvoiceLink = invoices.some(({ paymentUrl }) => paymentUrl !== null)
  const isOneCurrency = new Set(invoices.map(({ currency }) => currency)).size === 1
  return hasInvoiceLink || !isOneCurrency ? null : (payment[0]?.payment_link ?? null)
}

/** The reference of a bank transfer has space for only a few invoice numbers. */
const REFERENCES_MAX = 5

function paymentOf(
  details: PaymentDetails,
  allInvoices: readonly ReminderInvoice[],
  actionUrl: string | null,
  words: ReminderWords,
): MailPayment {
  const {
    currency,
    account_number: accountNumber,
    bank_code: bankCode,
    payment_link: link,
  } = details
  const invoices = allInvoices.filter((invoice) => invoice.currency === currency)
  const iban = accountNumber === null ? undefined : formatIban(accountNumber)
  // Without an IBAN, a bank code of eight digits may be a national one, such as a German Bankleitzahl.
  const isBic =
    iban !== undefined && bankCode !== null && /^[A-Z0-9]{8}(?:[A-Z0-9]{3})?$/.test(bankCode)
  const lines = [
    { label: words.accountHolder, value: details.account_holder },
    { label: iban === undefined ? words.accountNumber : 'IBAN', value: iban ?? accountNumber },
    { label: isBic ? 'BIC' : words.nationalBankCode, value: bankCode },
    { label: words.bankName, value: details.bank_name },
  ].flatMap(({ label, value }) => (value === null ? [] : [{ label, value: toOneLine(value) }]))
  const invoiceNumbers = invoices.map((invoice) => toOneLine(invoice.number))
  const showsReference = accountNumber !== null && invoiceNumbers.length <= REFERENCES_MAX
  // The creditor's payment link is not shown if each invoice in this currency has a link of its own, or if the button
  // already leads to the creditor's link.
  const areAllLinked = invoices.every(({ paymentUrl }) => paymentUrl !== null)
  const isLinkShown = link !== null && link !== actionUrl && !areAllLinked
  return {
    title: allInvoices.length === invoices.length ? words.howToPay : words.howToPayIn(currency),
    lines: showsReference
      ? [...lines, { label: words.reference, value: invoiceNumbers.join(', ') }]
      : lines,
    link: isLinkShown ? { label: words.payOnline, url: link } : undefined,
  }
}

/** `showsLink` is false if the reminder has only one invoice: the payment button then leads to the invoice's link. */
function rowOf(
  { number, dueDate, amountDue, currency, daysPastDue, paymentUrl }: ReminderInvoice,
  language: Language,
  words: ReminderWords,
  showsLink: boolean,
): MailRow {
  const isLinked = showsLink && paymentUrl !== null
  return {
    name: toOneLine(number),
    notes: [words.dueOn(dateText(dueDate, language)), words.relativeDueDate(daysPastDue)],
    amount: moneyText(amountDue, currency, language),
    link: isLinked ? { label: words.payOnline, url: paymentUrl } : undefined,
  }
}

interface Sum {
  readonly currency: string
  readonly due: bigint
  readonly onAccount: bigint
}

function sumsOf(invoices: readonly ReminderInvoice[]): Sum[] {
  const byCurrency = Map.groupBy(invoices, ({ currency }) => currency)
  return [...byCurrency].map(([currency, group]) => ({
    currency,
    due: group.reduce((total, { amountDue }) => total + BigInt(amountDue), 0n),
    onAccount: group.reduce((total, { onAccount = 0 }) => total + BigInt(onAccount), 0n),
  }))
}

function onAccountSentences(
  invoices: readonly ReminderInvoice[],
  language: Language,
  words: ReminderWords,
): string[] {
  return sumsOf(invoices)
    .filter(({ onAccount }) => onAccount > 0n)
    .map(({ currency, due, onAccount }) => {
      const text = (amount: bigint) => moneyText(Number(amount), currency, language)
      return words.onAccount(text(onAccount), text(due - onAccount))
    })
}

/**
 * Returns the rows below the invoices, by currency. A single invoice has no total, because its own row shows the same
 * amount.
 */
function totalsOf(invoices: readonly ReminderInvoice[], language: Language, words: ReminderWords) {
  return sumsOf(invoices).flatMap(({ currency, due, onAccount }) => {
    const text = (amount: bigint) => moneyText(Number(amount), currency, language)
    const total = invoices.length === 1 ? [] : [{ label: words.total, amount: text(due) }]
    if (onAccount === 0n) return total
    return [
      ...total,
      { label: words.deducted, amount: text(-onAccount) },
      { label: words.remaining, amount: text(due - onAccount) },
    ]
  })
}

/** Formats for dates such as `1 December 2026`. Created once, because creating a format is slow. */
const DATE_FORMATS: ReadonlyMap<Language, Intl.DateTimeFormat> = new Map(
  LANGUAGES.map((language) => [
    language,
    new Intl.DateTimeFormat(language === 'en' ? 'en-GB' : language, {
      dateStyle: 'long',
      timeZone: 'UTC',
    }),
  ]),
)

function dateText(date: string, language: Language): string {
  return DATE_FORMATS.get(language)?.format(Date.parse(`${date}T00:00:00Z`)) ?? date
}
