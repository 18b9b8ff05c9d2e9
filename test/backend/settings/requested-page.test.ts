// A page that is requested without a session is shown after the login.
import t, { type Test } from 'tap'
import { matches } from '../../fixtures/matches.ts'
import { ADMIN, FORM, PASSWORD, startSettings } from '../../fixtures/service/settings.ts'

const PAGE = { accept: 'text/html' }

async function startWithLoginForm(t: Test) {
  const { backend } = await startSettings(t)
  return {
    backend,
    request: (path: string, headers: Record<string, string> = {}) =>
      backend.request('GET', path, { headers: { ...PAGE, ...headers } }),
    /** Logs in with the form. `cookie` is the cookie that the browser got when it requested a page. */
    async logIn(cookie: string) {
      const form = await backend.request('GET', '/settings/login', { headers: { ...PAGE, cookie } })
      const [, csrf = ''] = /name="csrf_token" value="([^"]+)"/.exec(form.text) ?? []
      const login = form.headers.getSetCookie().map((value) => value.split(';')[0])
      return backend.request('POST', '/settings/login', {
        headers: { ...FORM, cookie: [cookie, ...login].filter(Boolean).join('; ') },
        body: new URLSearchParams({
          csrf_token: csrf,
          email: ADMIN,
          password: PASSWORD,
        }).toString(),
      })
    },
  }
}

const pageCookieOf = (headers: Headers) =>
  headers.getSetCookie().find((value) => /^(?:__Host-)?page=/.test(value))

t.test('the login leads to the page that was requested before it', async (t) => {
  // Regression: the login always led to Home, even from the link to an approval in a mail.
  const { request, logIn } = await startWithLoginForm(t)
  const wanted = '/settings/invoices?view=overdue&currency=EUR'
  const redirected = await request(wanted, { 'sec-fetch-dest': 'document' })
  t.equal(redirected.headers.get('location'), '/settings/login')
  const [cookie = ''] = pageCookieOf(redirected.headers)?.split(';') ?? []
  const done = await logIn(cookie)
  matches(t, [done.status, done.headers.get('location')], [303, wanted])
  matches(t, pageCookieOf(done.headers), /^(?:__Host-)?page=; .*Max-Age=0/)
  const long = await request(`/settings/invoices?${'&'.repeat(1500)}`)
  matches(t, pageCookieOf(long.headers), /page=;/, 'a longer address is not kept')
  t.equal((await logIn('')).headers.get('location'), '/settings')
})

t.test('the login leads only to pages of Settings', async (t) => {
  const { request, logIn } = await startWithLoginForm(t)
  const image = await request('/settings/api-keys', { 'sec-fetch-dest': 'image' })
  t.equal(pageCookieOf(image.headers), undefined, 'an open page requests pictures, too')
  const [name = ''] = pageCookieOf((await request('/settings')).headers)?.split('=') ?? []
  const paths = [
    'https://evil.example/',
    '//evil.example',
    '/settingsevil',
    '/docs',
    '/settings/\n',
    '%',
  ]
  for (const path of paths) {
    for (const value of [path, encodeURIComponent(path)]) {
      if (/[\n]/.test(value)) continue
      const done = await logIn(`${name}=${value}`)
      matches(t, [done.status, done.headers.get('location')], [303, '/settings'], value)
    }
  }
})
