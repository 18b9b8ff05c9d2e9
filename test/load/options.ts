/** The options of a benchmark's command line. */
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'

/**
 * Returns the options. Prints the help and ends the process if it is requested, or if an option is unknown or
 * lacks its value (exit code 2).
 */
export function readOptions<const T extends ParseArgsOptionsConfig>(help: string, options: T) {
  if (process.argv.includes('--help') || process.argv.includes('-h')) {
    process.stdout.write(help)
    process.exit(0)
  }
  try {
    return parseArgs({ options }).values
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n\n${help}`)
    process.exit(2)
  }
}
