import type { Command, Option } from './command.ts'

export function renderHelp(commands: readonly Command[]): string {
  return [
    'Usage: npm run -s cli -- COMMAND [--json] [--help]',
    '',
    ...commands.flatMap((command) => [`  ${renderUsage(command)}`, `      ${command.summary}`]),
    '',
    'All commands except “import” and “database copy” read from the environment: DATA_DIR, DATABASE_URL,',
    'DATABASE_DIRECT_URL, KEY_PEPPER; the command “reminders run” also reads REHEARSAL, SMTP_URL, MAIL_FROM, BASE_URL,',
    'SECRET_BOX_KEY, MAIL_INBOUND_SECRET.',
    'Settings that are not in the environment are read from $DATA_DIR/secrets.env.',
    'The command “import” reads only RECEIVABLES_API_KEY from the environment, or nothing if --key-file is given.',
    'Exit codes: 0 after success, 1 after a rejection or failure, 2 if arguments or options are wrong.',
  ].join('\n')
}

export function renderCommandHelp(command: Command): string {
  return [
    command.summary,
    '',
    `Usage: npm run -s cli -- ${renderUsage(command)} [--json]`,
    ...Object.entries(command.options).flatMap(([name, option]) => [
      '',
      `  ${renderOption(name, option)}`,
      `      ${option.description}`,
    ]),
  ].join('\n')
}

function renderUsage({ name, arguments: names, options }: Command): string {
  const parts = Object.entries(options).map(([option, declared]) => {
    const text = renderOption(option, declared)
    return declared.required ? text : `[${text}]`
  })
  return [name, ...names, ...parts].join(' ')
}

function renderOption(name: string, { value }: Option): string {
  return value === undefined ? `--${name}` : `--${name} ${value}`
}
