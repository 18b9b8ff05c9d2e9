import { type Command, defineCommand } from './command.ts'

export const databaseCommands: readonly Command[] = [
  defineCommand({
    name: 'migrate',
    summary: 'Bring the database to the form that this version needs, as a starting backend does.',
    arguments: [],
    options: {},
    async run(_values, context) {
      const { migrated } = await context.database('migrator')
      return {
        json: { migrated },
        text: migrated.length === 0 ? 'Nothing to do.' : `Applied ${migrated.join(', ')}.`,
      }
    },
  }),
]
