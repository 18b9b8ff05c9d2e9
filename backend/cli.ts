/** The operators' command line: runs the command that the arguments name. */
import { runCommand } from './cli/run.ts'

const { env, stdout, stderr } = process
const now = new Date()
const stdin = () => process.stdin
process.exitCode = await runCommand(process.argv.slice(2), { env, stdin, stdout, stderr, now })
