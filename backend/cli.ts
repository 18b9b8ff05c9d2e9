import { runCommand } from './cli/run.ts'

const { env, stdout, stderr } = process
const stdin = () => process.stdin
const clock = () => new Date()
// Without these listeners, `… | head` would end with the stack trace of an unhandled error.
stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exitCode = 1
  if (error.code !== 'EPIPE') stderr.write(`The output could not be written: ${error.message}\n`)
})
stderr.on('error', () => {
  process.exitCode = 1
})
const code = await runCommand(process.argv.slice(2), { env, stdin, stdout, stderr, clock })
// If a listener has set the exit code to 1, it stays 1 even if the command succeeded.
process.exitCode ||= code
