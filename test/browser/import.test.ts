// An Admin imports a CSV file in Settings, with and without scripts.
import type { Page } from 'playwright-core'
import t from 'tap'
import { createPageCheck, logIn, startSite } from '../fixtures/servers/browser.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

const site = await startSite(t)

const fileOf = (name: string, rows: readonly string[]) => ({
  name,
  mimeType: 'text/csv',
  buffer: Buffer.from(
    ['Invoice number,Customer ID,Customer name,Email,Invoice date,Due date,Amount', ...rows].join(
      '\n',
    ),
  ),
})
const rowOf = (number: number, due = '31/10/2026') =>
  `${number},C-${number % 7},Customer ${number % 7},ap${number % 7}@x.example,1/10/2026,${due},12.50`

async function choose(page: Page, file: ReturnType<typeof fileOf>) {
  await page.getByLabel('CSV file').setInputFiles(file)
  await page.getByLabel('Dates are written as').selectOption('D/M/YYYY')
  await page.getByRole('button', { name: 'Check the file' }).click()
}

t.test(
  'a faulty file is rejected, a correct file is imported, and an import is taken back',
  async (t) => {
    const page = await site.newPage(t)
    const check = createPageCheck(t, page)
    const policyViolations: string[] = []
    page.on('console', (message) => {
      if (/content security policy/i.test(message.text())) policyViolations.push(message.text())
    })
    await logIn(page, 'ada@acme.example')
    await page.getByRole('link', { name: 'Import a CSV file' }).click()
    await page.getByRole('heading', { name: 'Import a file' }).waitFor()
    await check('import-form')

    await choose(page, fileOf('wrong.csv', [rowOf(1), rowOf(2, '31/31/2026')]))
    await page
      .getByRole('alert')
      .getByText(/^Line 3: Due date "31\/31\/2026"/)
      .waitFor()
    await check('import-faults')

    const rows = Array.from({ length: 1500 }, (_, at) => rowOf(at + 1))
    await page.getByLabel('CSV file').setInputFiles(fileOf('ledger.csv', rows))
    await page.getByLabel('Dates are written as').selectOption('YYYY-MM-DD')
    await page.getByRole('button', { name: 'Check the file' }).click()
    await page
      .getByRole('alert')
      .getByText(/^Line 2: Invoice date/)
      .waitFor()
    t.equal(
      await page.getByLabel('CSV file').inputValue(),
      'C:\\fakepath\\ledger.csv',
      'the file is still selected',
    )
    await page.getByLabel('Dates are written as').selectOption('D/M/YYYY')
    await page.getByRole('button', { name: 'Check the file' }).click()
    await page.getByText('The file has 1,500 invoices of 7 customers.').waitFor()
    await check('import-preview')
    await page.setViewportSize({ width: 320, height: 640 })
    const caption = await page.locator('caption', { hasText: 'EUR' }).boundingBox()
    t.ok(Number(caption?.width) > 200, 'on a phone, the caption is wider than 200 pixels')
    await page.setViewportSize({ width: 1280, height: 720 })
    t.equal(await page.locator('textarea').isVisible(), false, 'the text of the file is hidden')
    await page.getByRole('button', { name: 'Record 1,507 records' }).click()
    await page.getByRole('heading', { name: 'Imported ledger.csv' }).waitFor()
    await page.getByText('1,507 records recorded or changed.').waitFor()
    await check('import-report')

    await page.getByRole('link', { name: 'Import another file' }).click()
    await choose(page, fileOf('mistake.csv', [rowOf(7001), rowOf(7002)]))
    await page.getByRole('button', { name: 'Record 2 records' }).click()
    await page.getByRole('link', { name: 'Take this import back…' }).click()
    await page.getByText('2 invoices are voided').waitFor()
    await check('import-take-back')
    await page.getByRole('button', { name: 'Take back' }).click()
    await page.getByText('2 records taken back.').waitFor()
    await check('import-taken-back')
    await page.goto('/settings/imports')
    await page.getByRole('row', { name: /^mistake\.csv .* Taken back$/ }).waitFor()
    await check('imports')

    await page.goto('/settings/import')
    await choose(page, fileOf('corrected.csv', [rowOf(1), rowOf(2, '30/11/2026')]))
    await page.getByText('due on 2026-11-30 instead of 2026-10-31').waitFor()
    await check('import-corrections')
    await page.getByLabel('Change 1 record to the values in the file').check()
    await page.getByRole('button', { name: 'Change the records' }).click()
    await page.getByText('1 record recorded or changed.').waitFor()
    t.strictSame(policyViolations, [])
  },
)

t.test('without scripts, a file is imported with columns that the Admin chooses', async (t) => {
  const page = await site.newPage(t, { user: 'ada@acme.example', javaScriptEnabled: false })
  await page.goto('/settings/import')
  const file = { ...fileOf('', []), name: 'fremd.csv' }
  const german = {
    ...file,
    buffer: Buffer.from('Nr;Kunde;Datum;Betrag\n9001;K-1;1/10/2026;99,50\n'),
  }
  await page.getByLabel('Amounts have a decimal comma').check()
  await choose(page, german)
  await page.getByRole('alert').waitFor()
  for (const [label, header] of [
    ['Invoice number', 'Nr'],
    ['Customer number', 'Kunde'],
    ['Issued on', 'Datum'],
    ['Amount', 'Betrag'],
  ] as const) {
    await page.getByLabel(label, { exact: true }).selectOption(header)
  }
  await choose(page, german)
  await page.getByRole('button', { name: 'Record 2 records' }).click()
  await page.getByText('2 records recorded or changed.').waitFor()
  await page.goto('/settings/invoices?view=all&number=9001')
  const rows = page.getByRole('row').filter({ hasText: '9001' })
  t.equal(await rows.filter({ hasText: '€99.50' }).count(), 1)
})
