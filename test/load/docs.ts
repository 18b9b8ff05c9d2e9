/**
 * `npm run bench -- docs [--rounds N]`: measures how fast a reader sees the documentation. Chromium opens pages
 * through a gateway, first with an empty cache, then again. The figures are the performance entries of the browser.
 * The median first paint must occur within a second, and within two seconds for the reference.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { readOptions } from '../fixtures/runner/options.ts'
import { startSite } from '../fixtures/servers/browser.ts'
import { untilDocsAreRendered } from '../fixtures/service/documentation.ts'
import { Cleanup, describeMachine } from './machine.ts'
import { median, rounded, tableOf } from './report.ts'

const FIRST_PAINT_MS_MAX: Readonly<Record<string, number>> = {
  '/docs': 1_000,
  '/docs/first-call': 1_000,
  '/docs/payments': 1_000,
  '/docs/webhooks': 1_000,
  '/docs/errors': 1_000,
  '/docs/reference': 2_000,
}

/** The times are in milliseconds since the navigation began. */
interface PageLoad {
  readonly firstPaintMs: number
  readonly loadMs: number
  readonly kilobytes: number
}

const HELP = `Measures how fast a browser shows pages of the documentation.

Usage: npm run bench -- docs [options]

  --rounds N   how often each page is opened (7)
`

const options = readOptions(HELP, { rounds: { type: 'string', default: '7' } })
const cleanup = new Cleanup()
try {
  process.exitCode = (await measure(Number(options.rounds))) ? 0 : 1
} finally {
  await cleanup.end()
}

async function measure(rounds: number): Promise<boolean> {
  const directory = mkdtempSync(join(tmpdir(), 'bench-docs-'))
  cleanup.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const site = await startSite({
    testdir: () => directory,
    teardown: (work) => cleanup.teardown(work),
  })
  await untilDocsAreRendered(site.url)
  const paths = Object.keys(FIRST_PAINT_MS_MAX)
  const empty = new Map<string, PageLoad[]>(paths.map((path) => [path, []]))
  const cached = new Map<string, PageLoad[]>(paths.map((path) => [path, []]))
  // The first round is not counted, because it starts the processes of the browser.
  for (let round = -1; round < rounds; round++) {
    for (const path of paths) {
      const page = await site.newPage(cleanup)
      const first = await loadPage(page, path)
      await page.goto('about:blank')
      const second = await loadPage(page, path)
      await page.context().close()
      if (round < 0) continue
      empty.get(path)?.push(first)
      cached.get(path)?.push(second)
    }
  }
  process.stdout.write(
    `${describeMachine()}; medians of ${rounds} rounds, with the slowest in parentheses\n\n`,
  )
  const columns = ['page', 'first paint', 'promised', 'loaded', 'transferred', 'first paint again']
  process.stdout.write(`${tableOf(columns, paths.map(rowOf))}\n`)
  return paths.every((path) => firstPaintOf(path) <= (FIRST_PAINT_MS_MAX[path] ?? 0))

  function firstPaintOf(path: string): number {
    return median((empty.get(path) ?? []).map(({ firstPaintMs }) => firstPaintMs))
  }

  function rowOf(path: string): string[] {
    const loads = empty.get(path) ?? []
    const again = cached.get(path) ?? []
    return [
      path,
      milliseconds(loads.map(({ firstPaintMs }) => firstPaintMs)),
      `${rounded(FIRST_PAINT_MS_MAX[path] ?? 0)} ms`,
      milliseconds(loads.map(({ loadMs }) => loadMs)),
      `${rounded(median(loads.map(({ kilobytes }) => kilobytes)))} kB`,
      milliseconds(again.map(({ firstPaintMs }) => firstPaintMs)),
    ]
  }
}

function milliseconds(figures: readonly number[]): string {
  return `${rounded(median(figures))} ms (${rounded(Math.max(...figures))})`
}

/** Resolves when the page has loaded and its first content has been painted. */
async function loadPage(page: Page, path: string): Promise<PageLoad> {
  await page.goto(path)
  return page.evaluate(`new Promise((resolve) => {
    new PerformanceObserver((list, observer) => {
      const paint = list.getEntriesByName('first-contentful-paint')[0]
      if (paint === undefined) return
      observer.disconnect()
      const [navigation] = performance.getEntriesByType('navigation')
      const resources = [navigation, ...performance.getEntriesByType('resource')]
      resolve({
        firstPaintMs: paint.startTime,
        loadMs: navigation.loadEventEnd,
        kilobytes: resources.reduce((sum, { transferSize }) => sum + transferSize, 0) / 1000,
      })
    }).observe({ type: 'paint', buffered: true })
  })`)
}
