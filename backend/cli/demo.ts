import { OPERATOR } from '../accounts/audit.ts'
import { SCOPES } from '../accounts/scopes.ts'
import { issueApiKey, listApiKeys, revokeApiKey } from '../api-keys/api-keys.ts'
import {
  createDemoAccount,
  DEMO_LOGINS,
  findDemoAccount,
  findInvoiceForSampleCommand,
} from '../demo/demo.ts'
import { checkPasswordLength } from '../users/password-rules.ts'
import { createPasswords } from '../users/passwords.ts'
import { type Command, defineCommand } from './command.ts'

/** The name of the keys that this command issues. */
const KEY_NAME = 'Quick start'

export const demoCommands: readonly Command[] = [
  defineCommand({
    name: 'demo',
    summary:
      'Create the demo account unless it exists, and issue a new API key for it. The key of the previous run is revoked.',
    arguments: [],
    options: {
      password: {
        type: 'string',
        required: true,
        value: 'P',
        description: 'The password of both demo logins, used only if the account is created.',
      },
    },
    async run({ password }, context) {
      const database = await context.database()
      const found = await findDemoAccount(database.read)
      const account = found ?? (await createDemo(password))
      const { row, secret } = await context.performAction(async (tx, actionContext) => {
        for (const { id, name, created_by, revoked_at } of await listApiKeys(tx, account.id)) {
          const isFromPreviousRun = name === KEY_NAME && created_by === OPERATOR.label
          if (isFromPreviousRun && revoked_at === null) await revokeApiKey(tx, id, actionContext)
        }
        const key = { accountId: account.id, name: KEY_NAME, scopes: SCOPES }
        return issueApiKey(tx, key, context.peppers(), actionContext)
      })
      const invoice = await findInvoiceForSampleCommand(database.read, account.id)
      return {
        json: {
          account: { id: account.id, name: account.name },
          logins: DEMO_LOGINS,
          key: { id: row.id, secret, prefix: row.prefix },
          invoice: invoice === undefined ? null : { id: invoice.id, currency: invoice.currency },
        },
        text: `Issued a key for the demo account ${account.id}. Store its secret now: it cannot be shown again.\n\n  ${secret}\n`,
      }

      async function createDemo(password: string) {
        checkPasswordLength(password)
        const passwordHash = await createPasswords().hash(password)
        return context.performAction((tx, actionContext) =>
          createDemoAccount(tx, passwordHash, actionContext),
        )
      }
    },
  }),
]
