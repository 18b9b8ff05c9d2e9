export type Engine = 'SQLite' | 'PostgreSQL'

const ENGINES: Readonly<Record<string, Engine>> = { sqlite: 'SQLite', postgres: 'PostgreSQL' }

/** Returns the databases that the option `--engine` chooses. If it names none, ends the process with exit code 2. */
export function enginesOf(option: string | undefined): readonly Engine[] {
  if (option === undefined) return Object.values(ENGINES)
  const engine = ENGINES[option.toLowerCase()]
  if (engine !== undefined) return [engine]
  process.stderr.write(
    `--engine must be ${Object.keys(ENGINES).join(' or ')}, but it is ${option}.\n`,
  )
  process.exit(2)
}
