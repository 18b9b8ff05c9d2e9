// Forms and actions that require the password again, with and without scripts.
import type { Page } from 'playwright-core'
import t from 'tap'
import { openDatabase } from '../../backend/database/open.ts'
import { createLogger } from '../../shared/process/log.ts'
import {
  clickAndLoad,
  createPageCheck,
  PASSWORD,
  startSite,
  tabTo,
} from '../fixtures/servers/browser.ts'

// On a busy machine, a browser needs more time than tap's default timeout allows.
t.setTimeout(900_000)

const site = await startSite(t)
const database = await openDatabase({
  url: `sqlite:${site.system.env['DATA_DIR']}/receivables.db`,
  log: createLogger('test', 'silent'),
  openedBy: 'operator',
})
t.teardown(() => database.close())

/** Makes each session look as if its password was entered an hour ago. */
async function expireConfirmations(): Promise<void> {
  const confirmed_at = new Date(Date.now() - 3_600_000).toISOString()
  await database.transaction((tx) => tx.updateTable('sessions').set({ confirmed_at }).execute())
}

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

async function confirm(page: Page, password = PASSWORD): Promise<void> {
  await page.getByLabel('Password').fill(password)
  await clickAndLoad(page, button(page, 'Continue'))
}

for (const javaScriptEnabled of [true, false]) {
  const scripts = javaScriptEnabled ? 'with scripts' : 'without scripts'

  t.test(`a wording is kept while the password is entered, ${scripts}`, async (t) => {
    const page = await site.newPage(t, { user: 'ada@acme.example', javaScriptEnabled })
    await page.goto('/settings/wording/firm-en')
    const closing = `Call us <b>today</b>, "please" & thank you.\n\nYours, ${scripts}`
    await page.getByLabel('After the invoices').fill(closing)
    await expireConfirmations()
    await clickAndLoad(page, button(page, 'Save'))
    await page.getByRole('heading', { name: 'Confirm that it is you' }).waitFor()
    if (javaScriptEnabled) await createPageCheck(t, page)('confirmation-kept-form')
    await confirm(page, 'wrong')
    await page.getByRole('alert').getByText('This is not your current password.').waitFor()
    await confirm(page)
    await page.getByText('Saved. Reminders that wait').waitFor()
    t.equal(await page.getByLabel('After the invoices').inputValue(), closing)
  })

  t.test(`an endpoint is added once after the password, ${scripts}`, async (t) => {
    const page = await site.newPage(t, { user: 'ada@acme.example', javaScriptEnabled })
    const url = `https://hooks.example/${javaScriptEnabled}`
    await page.goto('/settings/webhook-endpoints/new')
    await page.getByLabel('Endpoint URL').fill(url)
    await page.getByLabel('invoice.paid').check()
    await expireConfirmations()
    await clickAndLoad(page, button(page, 'Add endpoint'))
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByLabel('Password').press('Enter')
    await page.getByText('Copy the signing secret now').waitFor()
    const rows = await database.read.selectFrom('webhook_endpoints').select('url').execute()
    t.equal(rows.filter((row) => row.url === url).length, 1)
  })
}

t.test('a person is deactivated in a dialog that asks for the password, by keyboard', async (t) => {
  const page = await site.newPage(t, { user: 'ada@acme.example' })
  await page.goto('/settings/people')
  const row = page.getByRole('row').filter({ hasText: 'mia@acme.example' })
  await tabTo(page, row.getByRole('button', { name: /^Deactivate/ }))
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('alertdialog')
  await dialog.waitFor()
  await expireConfirmations()
  await tabTo(page, dialog.getByRole('button', { name: /^Deactivate/ }))
  await page.keyboard.press('Enter')
  const again = page.getByRole('dialog', { name: 'Confirm that it is you' })
  await again.waitFor()
  await createPageCheck(t, page)('confirmation-dialog')
  await tabTo(page, again.getByLabel('Password'))
  await page.keyboard.type('wrong')
  await page.keyboard.press('Enter')
  await again.getByText('This is not your current password.').first().waitFor()
  await tabTo(page, again.getByLabel('Password'))
  await page.keyboard.type(PASSWORD)
  await page.keyboard.press('Enter')
  await page.getByText('deactivated').first().waitFor()
  await expireConfirmations()
  await page.getByRole('button', { name: /^Undo/ }).click()
  await confirm(page)
  await page.getByText('reactivated').first().waitFor()
})
