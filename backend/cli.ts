/** The operators' command line: runs the command of this process's arguments. */
import { runCommand } from './cli/run.ts'

const { env, stdout, stderr } = process
process.exitCode = await runCommand(process.argv.slice(2), { env, stdout, stderr })
