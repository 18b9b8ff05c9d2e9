// Reminders have the same content as text and as HTML, in the debtor's language. Names are escaped.
import t from 'tap'
import { chooseLanguage, LANGUAGES } from '../../../backend/mail/wording/languages.ts'
import { type ReminderContent, writeReminder } from '../../../backend/mail/wording/reminder-text.ts'
import { containing, matches } from '../../fixtures/matches.ts'

const STAGES = ['courtesy', 'friendly', 'reminder', 'firm', 'final'] as const

function contentIn(overrides: Partial<ReminderContent> = {}): ReminderContent {
  return {
    language: 'en',
    stage: 'friendly',
    creditor: { name: 'Acme Ltd', logo: undefined, replyTo: 'billing@acme.nl' },
    debtor: { name: 'Jansen Bouw B.V.' },
    invoices: [invoiceIn()],
    wording: undefined,
    payment: [],
    unsubscribeUrl: 'https://receivables.io/mail/unsubscribe/token',
    ...overrides,
  }
}

const DETAILS = {
  currency: 'EUR',
  account_holder: 'Acme Ltd',
  account_number: 'NL91ABNA0417164300',
  bank_code: 'ABNANL2A',
  bank_name: 'ABN <b>AMRO</b>',
  payment_link: 'https://pay.acme.nl/all?a=1&b=2',
}

function invoiceIn(overrides: Partial<ReminderContent['invoices'][number]> = {}) {
  return {
    number: 'INV-1',
    dueDate: '2026-11-18',
    amountDue: 123_450,
    currency: 'EUR',
    daysPastDue: 3,
    paymentUrl: null,
    ...overrides,
  }
}

/** Returns the text that the HTML shows, with the addresses of its links. */
function visibleTextOf(html: string): string {
  return html
    .replace(/<style>.*?<\/style>/s, '')
    .replace(/<a [^>]*href="([^"]*)"[^>]*>/g, ' $1 ')
    .replace(/<[^>]*>/g, ' ')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&')
    .replace(/\s+/g, ' ')
}

t.test('text and HTML have the same content, at every stage and in every language', async (t) => {
  const urls = { paymentUrl: 'https://pay.acme.nl/1?a=1&b=2' }
  for (const language of LANGUAGES) {
    for (const stage of STAGES) {
      for (const invoices of [
        [invoiceIn(urls)],
        [invoiceIn(), invoiceIn({ ...urls, number: 'INV-2', daysPastDue: -3 })],
        [invoiceIn({ onAccount: 450 })],
        [invoiceIn({ onAccount: 450 }), invoiceIn({ number: 'INV-2', currency: 'JPY' })],
      ]) {
        const { subject, text, html } = writeReminder(
          contentIn({ language, stage, invoices, payment: [DETAILS] }),
        )
        matches(t, html, containing(`<html lang="${language}">`))
        matches(t, subject, /INV-1|2 \S+ – Acme Ltd$/)
        const visible = visibleTextOf(html)
        const parts = text.split(/\n|: |:$/m).map((part) => part.replace(/\s+/g, ' ').trim())
        const missing = parts.filter((part) => part !== '--' && !visible.includes(part))
        t.strictSame(missing, [], `${language} ${stage}`)
      }
    }
  }
})

t.test('a reminder says who the creditor is, and how to stop further reminders', async (t) => {
  const { text } = writeReminder(contentIn())
  matches(t, text, containing('on behalf of Acme Ltd. Acme Ltd remains the creditor'))
  matches(t, text, containing('https://receivables.io/mail/unsubscribe/token'))
  matches(t, text, containing('Just reply to this e-mail, or write to billing@acme.nl.'))
  const { text: toBv } = writeReminder(
    contentIn({ creditor: { name: 'Acme B.V.', logo: undefined, replyTo: null } }),
  )
  matches(t, toBv, containing('on behalf of Acme B.V. Acme B.V. remains the creditor'))
  const preview = writeReminder(contentIn({ unsubscribeUrl: null }))
  t.notMatch(preview.text + preview.html, /unsubscribe|Stop reminders/)
})

t.test(
  'amounts have the decimals of their currency and are never added across currencies',
  async (t) => {
    const amount = (currency: string, amountDue: number, language = 'en') =>
      writeReminder(contentIn({ language, invoices: [invoiceIn({ currency, amountDue })] })).text
    matches(t, amount('HUF', 123_450), /HUF.1,234\.50/)
    matches(t, amount('JPY', 123_450), containing('¥123,450'))
    matches(t, amount('KWD', 123_450), /KWD.123\.450/)
    matches(t, amount('EUR', 123_450, 'nl'), /€.1\.234,50/)
    const { text } = writeReminder(
      contentIn({
        invoices: [
          invoiceIn({ amountDue: 100 }),
          invoiceIn({ amountDue: 250 }),
          invoiceIn({ amountDue: 500, currency: 'USD' }),
        ],
      }),
    )
    matches(t, text, containing('Total due: €3.50\nTotal due: $5.00'))
  },
)

t.test('days until and after the due date are worded in each language', async (t) => {
  const textOf = (daysPastDue: number, language: string) =>
    writeReminder(contentIn({ language, invoices: [invoiceIn({ daysPastDue })] })).text
  matches(t, textOf(1, 'en'), containing('1 day overdue'))
  matches(t, textOf(2, 'en'), containing('2 days overdue'))
  matches(t, textOf(0, 'en'), containing('due today'))
  matches(t, textOf(-3, 'en'), containing('in 3 days'))
  matches(t, textOf(1, 'de'), containing('1 Tag überfällig'))
  matches(t, textOf(-3, 'de'), containing('in 3 Tagen'))
  matches(t, textOf(1, 'nl'), containing('1 dag te laat'))
  matches(t, textOf(2, 'fr'), containing('2 jours de retard'))
})

t.test('the HTML contains one payment link for each invoice that has one', async (t) => {
  const links = (html: string) =>
    [...html.matchAll(/href="(https:\/\/pay[^"]*)"/g)].map(([, url]) => url)
  const payable = (n: number) => invoiceIn({ paymentUrl: `https://pay.acme.nl/${n}` })
  t.strictSame(links(writeReminder(contentIn({ invoices: [payable(1)] })).html), [
    'https://pay.acme.nl/1',
  ])
  const { html } = writeReminder(contentIn({ invoices: [payable(1), invoiceIn(), payable(3)] }))
  t.strictSame(links(html), ['https://pay.acme.nl/1', 'https://pay.acme.nl/3'])
})

t.test('the account’s payment link is shown unless every invoice has its own', async (t) => {
  const urls = (invoices: ReminderContent['invoices']) => {
    const { text } = writeReminder(contentIn({ invoices, payment: [DETAILS] }))
    return [...text.matchAll(/https:\/\/pay\S+/g)].map(([url]) => url)
  }
  const own = { paymentUrl: 'https://pay.acme.nl/1' }
  t.strictSame(urls([invoiceIn()]), [DETAILS.payment_link])
  t.strictSame(urls([invoiceIn(own)]), [own.paymentUrl])
  t.strictSame(urls([invoiceIn(own), invoiceIn()]), [own.paymentUrl, DETAILS.payment_link])
  t.strictSame(urls([invoiceIn(), invoiceIn({ currency: 'USD' })]), [DETAILS.payment_link])
})

t.test('markup and line breaks in names and numbers have no effect', async (t) => {
  const evil = `"'><script>alert(1)</script><img src=x onerror=alert(1)>\r\nBcc: x@y.z`
  const { subject, html, text } = writeReminder(
    contentIn({
      creditor: { name: evil, logo: undefined, replyTo: null },
      debtor: { name: evil },
      invoices: [invoiceIn({ number: evil, paymentUrl: 'https://pay.acme.nl/"><script>' })],
    }),
  )
  t.notMatch(html, /<script|<img/)
  t.notMatch(subject, /[\r\n]/)
  t.notMatch(text, /^Bcc:/m)
  matches(t, visibleTextOf(html), containing('<script>alert(1)</script>'))
})

t.test('a reminder is in the debtor’s language if the service supports it', async (t) => {
  t.equal(chooseLanguage('de-AT'), 'de')
  t.equal(chooseLanguage('NL'), 'nl')
  t.equal(chooseLanguage('pt-BR'), 'en')
  t.equal(chooseLanguage(null), 'en')
  t.equal(chooseLanguage('pt', 'fr-CA'), 'fr')
})
