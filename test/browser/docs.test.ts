// The documentation as people read it: on a desktop, on a phone, by keyboard, without scripts.
import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import {
  logIn,
  PASSWORD,
  startSite,
  takeScreenshots,
  violationsOf,
} from '../fixtures/servers/browser.ts'
import { call } from '../fixtures/service/call.ts'
import { untilDocsAreRendered } from '../fixtures/service/documentation.ts'
import { until } from '../fixtures/service/until.ts'

const site = await startSite(t)
await untilDocsAreRendered(site.url)
const PHONE = { width: 320, height: 640 }

/**
 * Resolves with the paths of the start page, of the pages to which it links, and of a page that does not exist. The
 * reference has tests of its own.
 */
async function servedPages(): Promise<readonly string[]> {
  const page = await site.newPage(t)
  await page.goto('/docs')
  const cards = await page.locator('.cards a').all()
  const paths = await Promise.all(
    cards.map(async (card) => String(await card.getAttribute('href'))),
  )
  t.ok(paths.length > 15, `${paths.length} pages`)
  return ['/docs', ...paths.filter((path) => path !== '/docs/reference'), '/docs/nowhere']
}

t.test(
  'every page is accessible, on a desktop in light colors and on a phone in dark ones',
  async (t) => {
    const settings = [
      { viewport: { width: 1280, height: 800 }, colorScheme: 'light' },
      { viewport: PHONE, colorScheme: 'dark' },
    ] as const
    for (const options of settings) {
      const page = await site.newPage(t, options)
      const faults: string[] = []
      page.on('pageerror', (error) => faults.push(String(error)))
      page.on('request', (request) => {
        if (!request.url().startsWith(`${site.url}/`) && !request.url().startsWith('data:'))
          faults.push(`request to another origin: ${request.url()}`)
      })
      page.on('console', (message) => {
        if (message.type() === 'error' && !/status of 404/.test(message.text()))
          faults.push(message.text())
      })
      for (const path of await servedPages()) {
        await page.goto(path)
        t.strictSame(await violationsOf(page), [], `${path}, ${options.colorScheme}`)
        t.equal(
          await page.evaluate('document.documentElement.scrollWidth <= innerWidth'),
          true,
          `${path} has no horizontal scrolling`,
        )
        if (options.viewport !== PHONE) await takeScreenshots(page, path.slice(1).replace('/', '-'))
      }
      t.strictSame(faults, [])
    }
  },
)

t.test('the reference is compressed', async (t) => {
  const page = await site.newPage(t)
  const response = await page.goto('/docs/reference')
  t.equal(await response?.headerValue('content-encoding'), 'gzip')
})

t.test('the search works by keyboard', async (t) => {
  const page = await site.newPage(t)
  await page.goto('/docs')
  const search = page.getByRole('searchbox', { name: 'Search' })
  await search.pressSequentially('payment exceeds balance')
  const results = page.locator('#results a')
  await results.first().waitFor()
  matches(t, await page.locator('#found').textContent(), /^\d+ results?/)
  t.strictSame(await violationsOf(page), [])
  await search.fill('payment_exceeds_balance')
  await page.locator('#results a', { hasText: /^payment_exceeds_balance$/ }).waitFor()
  await search.press('Tab')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/docs/errors#payment_exceeds_balance')

  await search.fill('xyzzyqwv')
  await page.locator('#found').getByText('0 results').waitFor()
  await search.press('Escape')
  t.equal(await search.inputValue(), '')
})

/** Search queries of integrators, and the address to which the first result must lead. */
const QUERIES: Readonly<Record<string, RegExp>> = {
  'how do I page': /pagination/,
  pagination: /pagination/,
  paginaton: /pagination/,
  'is a retry safe': /payments/,
  'how do I get an API key': /first-call#get-an-api-key/,
  'how do I authenticate': /authentication/,
  'which scopes do I need': /authentication#scopes/,
  'how do I rotate a key': /authentication#rotate/,
  'can I call the API from a browser': /authentication/,
  'what is 429': /errors#rate_limit_exceeded|rate-limits/,
  'how do I verify a webhook': /webhooks#verify-the-signature/,
  'how often are webhooks retried': /webhooks/,
  'how do I refund a payment': /glossary#refunds-and-reversals/,
  'how do I record a payment for several invoices': /payments#record/,
  'partial payment': /payments#record/,
  overpayment: /payments#extra-safeguards/,
  'what are minor units': /money/,
  'wrong currency': /errors#(?:currency_mismatch|unsupported_currency)/,
  'how do I avoid duplicate customers': /first-call#create-a-customer/,
  'how do I get only what changed': /syncing/,
  'why was a reminder not sent': /messages#why-a-reminder-was-not-sent/,
  'is there a sandbox': /testing/,
  'is there a client library': /clients/,
  'how do I get help': /help/,
  'what is 423': /account_read_only/,
  'how do I test webhooks on my machine': /testing/,
  'what time zone is due_date': /glossary/,
  refund: /glossary#refunds-and-reversals/,
  'write off': /glossary|questions#can-i-change/,
  'partial refund': /glossary#refunds-and-reversals/,
  'rate limit': /rate-limits/,
  throttling: /rate-limits/,
  'can I get a higher limit': /rate-limits/,
  sandbox: /testing/,
  'verify signature': /webhooks/,
  'rotate key': /authentication/,
  idempotency: /payments|idempotency/,
  'minor units': /money/,
  'sync incremental': /syncing/,
  deprecation: /versioning/,
  'get help': /help/,
  insufficient_scope: /errors#insufficient_scope|authentication/,
  sdk: /clients/,
  'what is money on account': /questions#what-is-money-on-account/,
  'how do I test without sending mail': /questions#can-i-test|testing/,
  'what does Retry-After mean': /questions#how-long-should-i-wait/,
  'can two calls run at the same time': /questions#how-many-calls/,
  'how do I void an invoice': /questions#can-i-change/,
  'how do I delete a customer': /questions#can-i-change/,
  'how do I find a customer by my own number': /questions#how-do-i-find/,
  'how do I import invoices': /questions#is-there-a-batch/,
  'is there a batch endpoint': /questions#is-there-a-batch/,
  'how long is an idempotency key kept': /questions#how-long-is-an-idempotency-key-kept/,
  'what happens if the connection breaks': /questions#what-happens-if/,
  'webhook signature does not match': /webhooks#verify-the-signature/,
  'how do I rotate the webhook secret': /webhooks#rotate-a-secret/,
  'which IP addresses do webhooks come from': /questions#which-ip-addresses/,
  'how do I get overdue invoices': /questions#how-do-i-list-overdue-invoices/,
  'how do I filter by date': /pagination#filter-a-list/,
  'what is the maximum page size': /pagination/,
  'is the API versioned': /versioning/,
  'early payment discount': /questions#how-do-i-record-a-discount/,
  chargeback: /questions#how-do-i-record-a-chargeback/,
  'how do I restrict a key to an IP': /authentication#allowed-addresses/,
  'what is a cursor': /pagination/,
  'error format': /errors$/,
  'gdpr erase personal data': /questions#can-i-change/,
  'which currencies are supported': /questions#which-currencies/,
  'can I send a reminder by API': /questions#can-i-send-a-reminder/,
  'how do I know that an invoice was paid': /questions#how-do-i-know/,
  'what does draft mean': /questions#what-does-the-status/,
  'can I change the due date': /questions#can-i-change/,
  'how do I see deliveries that failed': /questions#how-do-i-see-which-deliveries/,
  'what happens when my server is down': /questions#what-happens-to-webhooks/,
  'is the order of webhooks guaranteed': /questions#do-webhooks-arrive-in-order/,
  'how do I reconcile a bank statement': /questions#how-do-i-record-the-payments/,
  'maximum request size': /questions#what-is-the-maximum-size/,
  'can I store my own data on an invoice': /questions#can-i-store-my-own-data/,
  'language of the reminder': /questions#in-which-language/,
  'how do I stop reminders for one customer': /questions#how-do-i-stop-or-pause/,
  'python client': /clients/,
}

t.test('for each typical search query, the first result leads to the right page', async (t) => {
  const page = await site.newPage(t)
  await page.goto('/docs')
  await page.keyboard.press('/')
  const search = page.getByRole('searchbox', { name: 'Search' })
  t.equal(await search.evaluate((input) => input === document.activeElement), true)
  const first = page.locator('#results a').first()
  for (const [query, expected] of Object.entries(QUERIES)) {
    await search.fill('')
    await search.fill(query)
    await first.waitFor()
    const href = String(await first.getAttribute('href'))
    t.ok(expected.test(href), `${query}: ${href}`)
    t.ok((await page.locator('#results .excerpt').first().textContent())?.length)
  }
  await search.press('ArrowDown')
  t.equal(await first.evaluate((link) => link === document.activeElement), true)
  await page.getByRole('heading', { level: 1 }).click()
  await page.keyboard.press('Control+k')
  t.equal(await search.evaluate((input) => input === document.activeElement), true)
})

t.test(
  'a page links to the next one, and still shows samples in the chosen language after Back',
  async (t) => {
    const page = await site.newPage(t)
    await page.goto('/docs/pagination')
    await page.getByRole('tab', { name: 'Ruby' }).click()
    const neighbors = page.getByRole('navigation', { name: 'Previous and next page' })
    await neighbors.getByRole('link', { name: 'Keep a copy up to date' }).click()
    await page.waitForURL('**/docs/syncing')
    await page.goBack()
    t.equal(await page.getByRole('tab', { name: 'Ruby', selected: true }).count(), 1)
  },
)

/** What Chromium does if the user blocks cookies and site data. */
const BLOCK_STORAGE = `Object.defineProperty(globalThis, 'localStorage', {
  get() {
    throw new DOMException('Access is denied for this document.', 'SecurityError')
  },
})`

// Regression: the script stopped, so that no sample could be copied.
t.test('pages have tabs and copy buttons even if the browser blocks storage', async (t) => {
  const page = await site.newPage(t)
  await page.context().addInitScript(BLOCK_STORAGE)
  await page.goto('/docs/pagination')
  await page.getByRole('tab', { name: 'Ruby' }).click()
  t.equal(await page.getByRole('tab', { name: 'Ruby', selected: true }).count(), 1)
  t.ok((await page.getByRole('button', { name: 'Copy' }).count()) > 0)
})

t.test('on a small screen the list of contents is closed at first', async (t) => {
  const page = await site.newPage(t, { viewport: PHONE })
  await page.goto('/docs/reference')
  const contents = page.getByRole('navigation', { name: 'Documentation' })
  t.equal(await contents.isVisible(), false)
  await page.getByText('Contents', { exact: true }).click()
  await contents.getByRole('link', { name: 'Record a payment', exact: true }).click()
  await page.waitForURL('**/docs/reference#createPayment')
  await page.setViewportSize({ width: 1280, height: 800 })
  await page.getByText('Contents', { exact: true }).waitFor({ state: 'hidden' })
  t.equal(await contents.isVisible(), true)
})

t.test('a sample is copied or, if the browser does not allow copying, selected', async (t) => {
  const page = await site.newPage(t)
  await page.goto('/docs/first-call')
  const sample = page.locator('.sample', { hasText: 'curl -i $API/me' })
  const button = sample.getByRole('button')
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  await button.click()
  await page.getByText('Copied.').waitFor()
  t.equal(
    await page.evaluate('navigator.clipboard.readText()'),
    'curl -i $API/me -H "Authorization: Bearer $KEY"',
  )
  await page.evaluate('navigator.clipboard.writeText = () => Promise.reject(new Error("no"))')
  await button.click()
  await page.getByText('Selected. You can copy it now.').waitFor()
  matches(t, String(await page.evaluate('String(getSelection())')), /^curl -i \$API\/me/)
})

t.test('without scripts, pages can be reached and read', async (t) => {
  const page = await site.newPage(t, { viewport: PHONE, javaScriptEnabled: false })
  await page.goto('/docs')
  await page.getByRole('navigation').getByRole('link', { name: 'Reference' }).click()
  await page.getByRole('heading', { name: 'Record a payment' }).waitFor()
  t.equal(await page.getByRole('searchbox').count(), 0)
})

// If SCREENSHOTS is set, this test takes a screenshot. Its upper part, with fewer colors, is docs/images/settings.png.
t.test('the page of Settings that the README shows as an image exists', async (t) => {
  const { operator } = site.system
  const account = await operator.createAccount('Acme Ltd')
  const login = ['--email', 'sam@acme.example', '--role', 'admin', '--password', PASSWORD]
  await operator.cli('users', 'create', '--account', account, ...login)
  const old = await operator.issueKey(account, { name: 'Old ERP' })
  await operator.revokeKey(old.id)
  await operator.issueKey(account, {
    name: 'Reporting',
    scopes: ['invoices:read', 'payments:read'],
  })
  const bank = await operator.issueKey(account, {
    name: 'Bank feed',
    scopes: ['invoices:read', 'payments:write'],
  })
  const erp = await operator.issueKey(account, { name: 'ERP' })
  for (const key of [bank.secret, erp.secret]) await call(`${site.url}/api/v1/me`, { key })
  const page = await site.newPage(t)
  await page.setViewportSize({ width: 1280, height: 640 })
  await logIn(page, 'sam@acme.example')
  await page.goto('/settings/api-keys')
  const used = page.getByRole('row', { name: /Bank feed.* ago|Bank feed.*now/ })
  await until(
    async () => (await page.reload()) && (await used.count()) === 1,
    'the last use is shown',
  )
  t.equal(await page.getByText('Show revoked (1)').count(), 1)
  await takeScreenshots(page, 'readme-settings')
})
