import { readFileSync } from 'node:fs'
import { readContractDocument } from '../../shared/contract/contract.ts'
import { readStylesheet } from '../html/stylesheet.ts'
import { type Asset, createAsset, createImmutableAsset } from './assets.ts'
import { renderCollection } from './collection.ts'
import { readDocument } from './document.ts'
import { renderLayout, renderNotFoundPage, type Site } from './layout.ts'
import { docsPages } from './pages.ts'
import { buildSearchIndex } from './search.ts'
import { renderTypeScript } from './typescript.ts'

export interface RenderedDocs {
  /** The files by path. */
  readonly files: ReadonlyMap<string, Asset>
  /** The HTML of the 404 response to any other path under `/docs`. */
  readonly notFoundPage: string
}

const ASSETS = new URL('./assets/', import.meta.url)

const MINISEARCH = new URL(import.meta.resolve('minisearch'))

/** Programs that readers can copy, and the page that describes them. */
const EXAMPLES = new URL('../../deploy/examples/', import.meta.url)
const EXAMPLE_FILES = ['README.md', 'client.ts', 'post-payments.ts', 'receivables.py', 'sync.ts']

/**
 * Rendering replaces these base URLs in the OpenAPI document and the examples with the base URL of the installation.
 */
const CONTRACT_BASE_URL = 'http://localhost:8080'
const EXAMPLES_BASE_URL = 'http://127.0.0.1:8080'

const HTML = 'text/html; charset=utf-8'
const JSON_TYPE = 'application/json; charset=utf-8'
const SCRIPT = 'text/javascript; charset=utf-8'
const STYLESHEET = 'text/css; charset=utf-8'
const TEXT = 'text/plain; charset=utf-8'

export function renderDocs(baseUrl: string): RenderedDocs {
  const contract = readContractDocument()
  const yaml = contract.yaml.replaceAll(CONTRACT_BASE_URL, baseUrl)
  const json = contract.json.replaceAll(CONTRACT_BASE_URL, baseUrl)
  const document = readDocument(json)
  const pages = docsPages(document, baseUrl)
  const asset = (name: string, type: string) =>
    createImmutableAsset(name, type, readFileSync(new URL(name, ASSETS)))
  const site: Site = {
    pages,
    stylesheet: createImmutableAsset(
      'docs.css',
      STYLESHEET,
      readStylesheet(new URL('docs.css', ASSETS)),
    ),
    script: asset('docs.js', SCRIPT),
    search: {
      index: createImmutableAsset('search.json', JSON_TYPE, buildSearchIndex(pages)),
      script: asset('search.js', SCRIPT),
      library: createImmutableAsset('minisearch.js', SCRIPT, readFileSync(MINISEARCH)),
    },
  }
  const files = [
    createAsset('/docs/openapi.json', JSON_TYPE, json),
    createAsset('/docs/openapi.yaml', 'application/yaml; charset=utf-8', yaml),
    createAsset(
      '/docs/receivables.postman_collection.json',
      JSON_TYPE,
      renderCollection(document, baseUrl),
    ),
    // Browsers display plain text, and would download TypeScript.
    createAsset('/docs/receivables-api.ts', TEXT, renderTypeScript(document)),
    ...EXAMPLE_FILES.map((name) => renderExample(name, baseUrl)),
    ...pages.map((page) => createAsset(page.path, HTML, renderLayout(page, site))),
    ...[site.stylesheet, site.script, ...Object.values(site.search)],
  ]
  return {
    files: new Map(files.map((file) => [file.path, file])),
    notFoundPage: renderNotFoundPage(site),
  }
}

function renderExample(name: string, baseUrl: string): Asset {
  const text = readFileSync(new URL(name, EXAMPLES), 'utf8')
  return createAsset(`/docs/examples/${name}`, TEXT, text.replaceAll(EXAMPLES_BASE_URL, baseUrl))
}
