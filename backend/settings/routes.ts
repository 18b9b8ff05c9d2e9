/** The Settings pages. */
import type { ServerRoute } from '@hapi/hapi'

export function settingsRoutes(): ServerRoute[] {
  return [
    {
      method: 'GET',
      path: '/settings',
      handler: (_request, h) => h.response(LOGIN_PAGE).type('text/html; charset=utf-8'),
    },
  ]
}

const LOGIN_PAGE = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Settings</title></head>
<body>
<main>
<h1>Settings</h1>
<form method="post" action="/settings/login">
<p><label>E-mail <input name="email" type="email" autocomplete="username" required></label></p>
<p><label>Password <input name="password" type="password" autocomplete="current-password" required></label></p>
<p><button>Log in</button></p>
</form>
</main>
</body>
</html>
`
