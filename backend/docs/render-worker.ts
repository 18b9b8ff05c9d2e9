/** The thread in which `rendered-docs.ts` renders. */
import { parentPort, workerData } from 'node:worker_threads'
import { renderDocs } from './render-docs.ts'

parentPort?.postMessage(renderDocs(String(workerData)))
