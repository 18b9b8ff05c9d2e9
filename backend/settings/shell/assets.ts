/** Serves stylesheets, scripts and the icon at paths with a hash of the content, so that browsers can cache them. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { ServerRoute } from '@hapi/hapi'
import { readStylesheet } from '../../html/stylesheet.ts'

const FILES = [
  { name: 'settings.css', type: 'text/css; charset=utf-8' },
  { name: 'ledger.css', type: 'text/css; charset=utf-8' },
  { name: 'home.css', type: 'text/css; charset=utf-8' },
  { name: 'lists.css', type: 'text/css; charset=utf-8' },
  { name: 'settings.js', type: 'text/javascript; charset=utf-8' },
  { name: 'dialogs.js', type: 'text/javascript; charset=utf-8' },
  { name: 'passkeys.js', type: 'text/javascript; charset=utf-8' },
  { name: 'icon.svg', type: 'image/svg+xml' },
] as const

type AssetName = (typeof FILES)[number]['name']

const ASSETS = FILES.map(({ name, type }) => {
  const file = new URL(`./assets/${name}`, import.meta.url)
  // `readStylesheet` adds the rules that Settings and the documentation share. Every page of Settings loads all
  // stylesheets, so only one of them needs these rules.
  const content = name === 'settings.css' ? readStylesheet(file) : readFileSync(file)
  const version = createHash('sha256').update(content).digest('base64url').slice(0, 12)
  return { name, type, content, path: `/settings/assets/${version}/${name}` }
})

export function assetPath(name: AssetName): string {
  return ASSETS.find((asset) => asset.name === name)?.path ?? ''
}

export function assetRoutes(): ServerRoute[] {
  return ASSETS.map(({ path, type, content }) => ({
    method: 'GET',
    path,
    handler: (_request, h) =>
      h.response(content).type(type).header('cache-control', 'public, max-age=31536000, immutable'),
  }))
}
