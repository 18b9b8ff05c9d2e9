import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { RenderedDocs } from './render-docs.ts'

const WORKER = new URL('./render-worker.ts', import.meta.url)

const rendered = new Map<string, Promise<RenderedDocs>>()

/**
 * The documentation for a base address, rendered once in a process. It takes a second of CPU, on a thread
 * of its own: neither the start of the process nor its calls wait for it. Rejects if it cannot be rendered;
 * the next call tries again.
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
  // Without this, a process that ends would wait for its documentation.
  worker.unref()
  const [docs]: RenderedDocs[] = await once(worker, 'message')
  if (docs === undefined) throw new Error('the documentation was not rendered')
  return docs
}
