/** Renders the documentation for the base URL in `workerData`, in the thread that `rendered-docs.ts` starts. */
import { parentPort, workerData } from 'node:worker_threads'
import { renderDocs } from './render-docs.ts'

parentPort?.postMessage(renderDocs(String(workerData)))
