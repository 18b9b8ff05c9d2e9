import t from 'tap'
import { parseColumns } from '../../../backend/cli/import/column-option.ts'
import { readHeaders } from '../../../backend/import/csv-records.ts'
import { dateReader } from '../../../backend/import/date-format.ts'
import { formatMinor, parseDecimal } from '../../../backend/import/decimal.ts'
import { type LedgerOptions, readLedger } from '../../../backend/import/ledger.ts'
import { matches, rejectsWith, throwsWith } from '../../fixtures/matches.ts'
import { fc } from '../../fixtures/properties.ts'

const HEADER = 'invoiceNumber,customerID,InvoiceDate,DueDate,InvoiceAmount,SettledDate'

function read(text: string | Buffer, overrides: Partial<LedgerOptions> = {}) {
  const dateFormat = overrides.dateFormat ?? 'M/D/YYYY'
  return readLedger(Buffer.from(text), {
    currency: 'USD',
    dateFormat,
    readDate: dateReader(dateFormat),
    decimalMark: '.',
    columns: new Map(),
    today: '2026-11-21',
    ...overrides,
  })
}

t.test('amounts are parsed exactly, with the decimal places of the currency', async (t) => {
  const usd = { exponent: 2, decimalMark: '.' } as const
  t.equal(parseDecimal('55.94', usd), 5594)
  t.equal(parseDecimal('55.9', usd), 5590)
  t.equal(parseDecimal('55', usd), 5500)
  t.equal(parseDecimal('55.9400', usd), 5594, 'zeros beyond the cents change nothing')
  t.equal(parseDecimal('1.005', usd), undefined, 'nothing is rounded')
  t.equal(parseDecimal('1.005', { exponent: 3, decimalMark: '.' }), 1005)
  t.equal(parseDecimal('1234', { exponent: 0, decimalMark: '.' }), 1234)
  t.equal(parseDecimal('1234.5', { exponent: 0, decimalMark: '.' }), undefined)
  t.equal(parseDecimal('1234,56', { exponent: 2, decimalMark: ',' }), 123456)
  t.equal(parseDecimal('9999999999.99', usd), 999_999_999_999)
  for (const grouped of ['1.234,56', '1 234,56', '1\u00a0234,56', '1’234,56']) {
    t.equal(parseDecimal(grouped, { exponent: 2, decimalMark: ',' }), 123456, grouped)
  }
  for (const text of [
    '0',
    '0.00',
    '-1',
    '+1',
    '1,234',
    '1,23.56',
    '1,2345.67',
    "1'234,567.89",
    '1.234,56',
    '1.',
    '.5',
    '1e3',
    '',
    '10000000000',
    '٣',
  ]) {
    t.equal(parseDecimal(text, usd), undefined, text)
  }
})

t.test('an error shows characters that are otherwise invisible', async (t) => {
  // Regression: the error quoted a date that looked valid.
  const rows = `${HEADER}\n1,C-1,\u200e1/2/2013,1/9/2013,5.00,\n`
  await rejectsWith(t, read(rows), /InvoiceDate "\\u\{200e\}1\/2\/2013" must be a date that exists/)
})

t.test('an error escapes control characters, which could control the terminal', async (t) => {
  // Regression: a cell with U+009B, with which an escape sequence may begin, was shown as it is.
  const rows = `${HEADER}\n1,C-1,\u009b31m1/2/2013,1/9/2013,5.00,\n`
  await rejectsWith(t, read(rows), /InvoiceDate "\\u\{9b\}31m1\/2\/2013"/)
})

t.test('a formatted amount is parsed to the same amount', async (t) => {
  const cents = fc.integer({ min: 1, max: 999_999_999_999 })
  fc.assert(
    fc.property(cents, fc.integer({ min: 0, max: 4 }), (amount, exponent) => {
      const text = formatMinor(BigInt(amount), exponent)
      const form = { exponent, decimalMark: '.' } as const
      const isSame = parseDecimal(text.replaceAll(',', ''), form) === amount
      return isSame && (exponent === 0 || parseDecimal(text, form) === amount)
    }),
  )
  t.equal(formatMinor(14_770_318n, 2), '147,703.18')
  t.equal(formatMinor(5n, 3), '0.005')
  t.equal(formatMinor(-123_456n, 0), '-123,456')
})

t.test('dates are parsed in the given format, and must exist', async (t) => {
  t.equal(dateReader('M/D/YYYY')('1/26/2013'), '2013-01-26')
  t.equal(dateReader('D.M.YYYY')('3.4.2013'), '2013-04-03')
  t.equal(dateReader('YYYYMMDD')('20130403'), '2013-04-03')
  t.equal(dateReader('M/D/YYYY')('2/29/2013'), undefined, 'not a leap year')
  t.equal(dateReader('M/D/YYYY')('26/1/2013'), undefined)
  t.equal(dateReader('MM/DD/YYYY')('1/26/2013'), undefined, 'MM requires two digits')
  t.equal(dateReader('D.M.YYYY')('3-4-2013'), undefined)
  for (const format of ['M/D/YY', 'M/YYYY', 'D/D/YYYY', 'DMYYYY', 'M/D/YYYY hh', '']) {
    throwsWith(t, () => dateReader(format), { name: 'LedgerError' }, format)
  }
})

t.test('a ledger is converted to customers and invoices', async (t) => {
  const ledger = await read(
    `\uFEFF${HEADER}\r\n0001,C-1,1/2/2013,2/1/2013,55.94,1/15/2013\r\n\r\n0002,C-1,1/26/2013,2/25/2013,61.7,\r\n`,
  )
  t.strictSame(
    [...ledger.customers.values()],
    [{ externalId: 'C-1', id: 'C-1', name: undefined, email: undefined }],
  )
  matches(t, ledger.invoices, [
    {
      ...{
        line: 2,
        number: '0001',
        externalId: '0001',
        customerExternalId: 'C-1',
        currency: 'USD',
      },
      ...{ amount: 5594, issuedOn: '2013-01-02', dueOn: '2013-02-01', settledOn: '2013-01-15' },
    },
    { line: 4, number: '0002', amount: 6170, settledOn: undefined },
  ])
})

t.test('an invoice may be due when it is issued, and paid tomorrow', async (t) => {
  const { invoices } = await read(`${HEADER}\n1,C-1,11/21/2026,11/21/2026,5,11/22/2026\n`)
  const expected = { issuedOn: '2026-11-21', dueOn: '2026-11-21', settledOn: '2026-11-22' }
  matches(t, invoices, [expected])
})

t.test('names, addresses and currencies are read from columns, with any separator', async (t) => {
  const ledger = await read(
    'Invoice no.;Customer;Customer name;E-mail;Date;Total;Currency\n"A 1";7;;;2026-02-28;12,5;KWD\nA2;7;"Jansen; Bouw";ap@Jansen.example;2026-02-28;12;eur\n',
    { dateFormat: 'YYYY-MM-DD', decimalMark: ',', currency: undefined },
  )
  matches(t, ledger.invoices, [
    { externalId: 'A%201', number: 'A 1', currency: 'KWD', amount: 12_500, dueOn: undefined },
    { externalId: 'A2', currency: 'EUR', amount: 1200 },
  ])
  matches(t, [...ledger.customers.values()], [{ name: 'Jansen; Bouw', email: 'ap@jansen.example' }])
})

t.test('a first line may name the separator, as for Excel', async (t) => {
  // Regression: this line was read as the header, so that no column was found.
  const rows = 'Number;Customer;Date;Amount;a,b,c,d,e\r\n1;K;1/2/2013;5;\r\n2;K;x;5;\r\n'
  const headers = ['Number', 'Customer', 'Date', 'Amount', 'a,b,c,d,e']
  for (const line of ['sep=;', '\uFEFFSEP=;', '"sep=;"', 'sep=;;;;']) {
    const file = `${line}\r\n${rows}`
    await rejectsWith(t, () => read(file), { message: /line 4: Date "x"/ }, line)
    t.strictSame(readHeaders(Buffer.from(file)), headers)
  }
  const { invoices } = await read('sep=|\n"Number"|Customer|Date|Amount\n1|K|1/2/2013|5\n')
  matches(t, invoices, [{ line: 3, number: '1', customerExternalId: 'K', amount: 500 }])
})

t.test('separators within quoted headers are not counted', async (t) => {
  // Regression: this file was rejected as invalid, because its first line has more commas than semicolons.
  const header =
    '"Number";"Customer";"Date, of issue, or of delivery,\nif earlier, as above";"Amount"'
  const ledger = await read(`${header}\n1;K;1/2/2013;5\n`, {
    columns: new Map([['issued', 'Date, of issue, or of delivery,\nif earlier, as above']]),
  })
  matches(t, ledger.invoices, [{ line: 3, number: '1', customerExternalId: 'K', amount: 500 }])
})

t.test('rows without any value are ignored', async (t) => {
  // Regression: each emptied row of a spreadsheet was reported with four errors.
  const rows = [',,,,,', HEADER, '', ' , ,,,,', '1,C-1,10/1/2026,,5.00,', ',,,,,', '2,C-1,x,,5.00,']
  await rejectsWith(t, () => read(rows.join('\r\n')), {
    message: /line 7: InvoiceDate "x" must be/,
  })
  const { invoices } = await read(['', ...rows.slice(1, -1)].join('\n').replaceAll(',', ';'))
  matches(t, invoices, [{ line: 5, number: '1', amount: 500 }])
})

t.test('all errors are listed with their lines and columns', async (t) => {
  // Regression: they named the fields of the import, such as "settled", instead of the columns of the file.
  const rows = [
    '1,C,1/2/2013,2/1/2013,55.94,1/15/2013',
    '1,C,1/2/2013,2/1/2013,55.94,1/15/2013',
    '2,C,13/2/2013,2/1/2013,-5,1/15/2013',
    '3,C,1/2/2013,1/1/2013,5,1/15/1999',
    '"4\n4",,1/2/2013,,5,11/23/2026',
    '5,C',
    '6',
    ',C,1/2/2013,,5,',
  ]
  const message = await read([HEADER, ...rows].join('\n')).then(
    () => '',
    (error: Error) => error.message,
  )
  t.matchOnly(message.split('\n'), [
    'The file has 11 errors. Nothing was imported.',
    /^ {2}line 3: invoice 1 is already on line 2$/,
    /^ {2}line 4: InvoiceDate "13\/2\/2013" must be a date that exists, as M\/D\/YYYY$/,
    /^ {2}line 4: InvoiceAmount "-5" must be an amount of USD above 0, such as 1234.56/,
    /^ {2}line 5: DueDate 2013-01-01 is before InvoiceDate 2013-01-02$/,
    /^ {2}line 5: SettledDate 1999-01-15 is not between/,
    /^ {2}line 6: invoiceNumber "4\\n4" must be text without control characters$/,
    /^ {2}line 6: SettledDate 2026-11-23 is not between/,
    /^ {2}line 6: customerID is empty$/,
    /^ {2}line 8: has 2 fields, but the header has 6$/,
    /^ {2}line 9: has 1 field, but the header has 6$/,
    /^ {2}line 10: invoiceNumber is empty$/,
  ])
})

t.test('of more than 1,000 errors, the first are listed and all are counted', async (t) => {
  // The parser continues after the wrong quotation mark, and reports it before the other errors are found.
  const rows = ['1,C,x,5,y', ...Array(1200).fill('too short'), '3,C,1/2/2013,5,"a" b']
  const message = await read(['number,customer,issued,amount,note', ...rows].join('\n')).catch(
    (error: Error) => error.message,
  )
  const lines = String(message).split('\n')
  t.equal(lines[0], 'The file has 1202 errors. Nothing was imported.')
  matches(t, lines[1], /^ {2}line 2: issued "x"/)
  t.equal(lines[1000], '  line 1001: has 1 field, but the header has 5')
  t.strictSame(lines.slice(1001), ['  and 202 more'])
})

t.test('the headers are searched only at the beginning of a file', async (t) => {
  // Regression: a file of blank rows blocked the process for half a second.
  const blank = (count: number) => Buffer.from(`${',\n'.repeat(count)}${HEADER}\n`)
  t.equal(readHeaders(blank(10_000)).length, 6)
  t.equal(readHeaders(blank(400_000)).length, 0)
})

t.test('without a currency, a correct amount is not reported as an error', async (t) => {
  // Regression: "12.50" was an error, because the currency was assumed to have no decimals.
  const header = 'number,customer,issued,amount,currency'
  const errorsOf = (row: string, currency: string | undefined) =>
    read([header, row].join('\n'), { currency }).catch((error: Error) => error.message)
  matches(
    t,
    await errorsOf('1,C,1/2/2013,12.50,', undefined),
    /1 error.*line 2: currency is empty$/s,
  )
  matches(
    t,
    await errorsOf('1,C,1/2/2013,12.50,X', 'JPY'),
    /1 error.*line 2: currency "X" [^\n]*$/s,
  )
})

t.test('wrong quotation marks are listed with all other errors', async (t) => {
  // Regression: only the first one was reported, in the words of the parser, and no error after it. A CR LF within a
  // cell was counted as two lines.
  const rowsWith = (lineBreak: string) => [
    'number,customer,issued,amount,note',
    '1,C,1/2/2013,5,5" pipe',
    `2,C,x,5,"first${lineBreak}second"`,
    '3,C,1/2/2013,5,"a" b',
    '4,"C,1/2/2013,5,',
    '5,C,1/2/2013,-5,',
    '',
    '6,C,1/2/2013,5,"never closed',
    '7,C,y,5,',
    `8,C,1/2/2013,5,${'x'.repeat(70_000)}`,
    '9,C,z,5,',
  ]
  const wrong = 'contains a quotation mark in the wrong place, or lacks the closing one.'
  for (const lineBreak of ['\n', '\r\n', '\r']) {
    const file = rowsWith(lineBreak).join(lineBreak)
    const message = await read(file).catch((error: Error) => error.message)
    t.matchOnly(
      String(message).split('\n').slice(1),
      [
        `  line 2: note ${wrong}`,
        '  line 3: issued "x"',
        `  line 5: note ${wrong}`,
        `  line 6: customer ${wrong}`,
        '  line 7: amount "-5"',
        '  line 9: note has no closing quotation mark',
        '  line 10: issued "y"',
        '  line 11: note has no closing quotation mark, or the row is longer than 65,536 characters',
        '  line 12: issued "z"',
      ].map((start) => new RegExp(`^${start}`)),
    )
  }
})

t.test('missing and ambiguous columns, missing rows and wrong options are reported', async (t) => {
  await rejectsWith(t, read('Rechnung,customer,date,amount\n1,2,3,4\n'), {
    message: /no column was found for number.*The file has: Rechnung, customer, date, amount\./,
  })
  await rejectsWith(t, read('number,customer,date,amount,Amount\n1,2,3,4,5\n'), {
    message: /amount could be any of the columns amount, Amount/,
  })
  await rejectsWith(t, read(`${HEADER}\n`, { columns: parseColumns('number=nothing') }), {
    message: /at least one row/,
  })
  await rejectsWith(
    t,
    read(`${HEADER}\n1,2,3,4,5,6\n`, { columns: parseColumns('number=nothing') }),
    {
      message: /number=nothing names no column/,
    },
  )
  throwsWith(t, () => parseColumns('nummer=Nr'), {
    name: 'UsageError',
    message: /not nummer=Nr/,
  })
})

t.test('an operator can assign columns to fields', async (t) => {
  const ledger = await read('Nr,Kunde,Datum,Betrag,settled\n1,K,1/2/2013,5,n/a\n', {
    columns: parseColumns('number=Nr, customer=Kunde, issued=Datum, amount=Betrag, settled='),
  })
  matches(t, ledger.invoices, [
    { number: '1', customerExternalId: 'K', amount: 500, settledOn: undefined },
  ])
})

// Regression: a large file was parsed in one turn of the event loop, which delayed all other requests.
t.test('a large file is parsed in slices, which do not split characters', async (t) => {
  const rows = Array.from({ length: 9000 }, (_, n) => `${n},C😀 ${n % 50},1/2/2013,,1.00,`)
  let turns = 0
  let isReading = true
  const countTurns = () => {
    turns++
    if (isReading) setImmediate(countTurns)
  }
  setImmediate(countTurns)
  const { invoices, customers } = await read([HEADER, ...rows].join('\n'))
  isReading = false
  t.ok(turns > 5, `the event loop ran ${turns} times`)
  t.equal(invoices.length, 9000)
  t.equal(invoices.at(-1)?.line, 9001)
  t.strictSame(
    [...customers.keys()],
    Array.from({ length: 50 }, (_, n) => `C😀%20${n}`),
  )
})

t.test('a file that is not UTF-8, not CSV, empty or without currency is rejected', async (t) => {
  await rejectsWith(t, read(Buffer.from([0x6e, 0xe9, 0x0a])), { message: /not UTF-8/ })
  await rejectsWith(t, read(`"${HEADER}\n1,2\n`), { message: /not valid CSV/ })
  await rejectsWith(t, read(''), { message: /a line of headers/ })
  await rejectsWith(t, read(`${HEADER}\n1,2,3,4,5,6\n`, { currency: undefined }), {
    name: 'LedgerError',
    message: /No column contains the currency/,
  })
})
