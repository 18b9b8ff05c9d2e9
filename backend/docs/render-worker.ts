/** Renders the documentation in the thread that `rendered-docs.ts` starts. */
import { parentPort, workerData } from 'node:worker_threads'
import { renderDocs } from './render-docs.ts'

parentPort?.postMessage(renderDocs(String(workerData)))
