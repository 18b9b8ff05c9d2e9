import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { RenderedDocs } from './render-docs.ts'

const WORKER = new URL('./render-worker.ts', import.meta.url)

const rendered = new Map<string, Promise<RenderedDocs>>()

/**
 * Returns the documentation, with `baseUrl` as the address of the service. The first call renders it, in a separate
 * thread, because this takes about a second of CPU time. If rendering fails, the promise rejects, and the next call
 * tries again.
 */
export function renderedDocs(baseUrl: string): Promise<RenderedDocs> {
  const known = rendered.get(baseUrl)
  if (known !== undefined) return known
  const rendering = render(baseUrl)
  rendered.set(baseUrl, rendering)
  rendering.catch(() => rendered.delete(baseUrl))
  return rendering
}

async function render(baseUrl: string): Promise<RenderedDocs> {
  const worker = new Worker(WORKER, { workerData: baseUrl })
  // Without `unref`, the process could not exit while the documentation is being rendered.
  worker.unref()
  const [docs]: RenderedDocs[] = await once(worker, 'message')
  if (docs === undefined) throw new Error('the documentation was not rendered')
  return docs
}
