/** The operators' command line: runs the command that the arguments name. */
import { runCommand } from './cli/run.ts'

const { env, stdout, stderr } = process
process.exitCode = await runCommand(process.argv.slice(2), { env, stdout, stderr, now: new Date() })
