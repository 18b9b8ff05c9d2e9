import { getAccount } from '../accounts/accounts.ts'
import { OPERATOR } from '../accounts/audit.ts'
import { readScopes, SCOPES } from '../accounts/scopes.ts'
import { issueApiKey, listApiKeys, RATE_LIMIT_DEFAULT, revokeApiKey } from '../api-keys/api-keys.ts'
import type { ApiKeyRow } from '../database/tables.ts'
import { type Command, defineCommand, renderTable, splitList, UsageError } from './command.ts'

export const keyCommands: readonly Command[] = [
  defineCommand({
    name: 'keys issue',
    summary: 'Issue an API key. Its secret is printed this once.',
    arguments: [],
    options: {
      account: { type: 'string', required: true, value: 'ID', description: 'The account.' },
      name: { type: 'string', required: true, value: 'N', description: 'Tells keys apart.' },
      scopes: {
        type: 'string',
        required: true,
        value: 'S,…',
        description: `What it may do, for good: ${SCOPES.join(', ')}.`,
      },
      'rate-limit': {
        type: 'string',
        value: 'N',
        description: `Calls an hour; ${RATE_LIMIT_DEFAULT} unless given.`,
      },
    },
    async run({ account, name, scopes, 'rate-limit': limit }, context) {
      if (limit !== undefined && !/^\d+$/.test(limit)) {
        throw new UsageError('--rate-limit is a whole number of calls an hour')
      }
      const peppers = context.peppers()
      const input = {
        accountId: account,
        name,
        scopes: splitList(scopes),
        ...(limit === undefined ? {} : { rateLimit: Number(limit) }),
      }
      const { row, secret } = await (await context.database()).transaction((tx) =>
        issueApiKey(tx, input, peppers, { actor: OPERATOR, now: context.now }),
      )
      return {
        json: {
          id: row.id,
          secret,
          prefix: row.prefix,
          name: row.name,
          scopes: readScopes(row.granted_scopes),
          rate_limit: row.rate_limit,
          account_id: row.account_id,
          created_at: row.created_at,
        },
        text: `Issued key ${row.id}, ${row.name}. Store its secret now, it cannot be shown again:\n\n  ${secret}\n`,
      }
    },
  }),

  defineCommand({
    name: 'keys list',
    summary: 'List the API keys of an account, revoked ones too.',
    arguments: [],
    options: {
      account: { type: 'string', required: true, value: 'ID', description: 'The account.' },
    },
    async run({ account }, context) {
      const { read } = await context.database()
      const { id } = await getAccount(read, account)
      const keys = await listApiKeys(read, id)
      return {
        json: keys.map(represent),
        text: renderTable(
          keys.map((key) => ({
            id: key.id,
            name: key.name,
            prefix: key.prefix,
            scopes: readScopes(key.granted_scopes).join(','),
            limit: String(key.rate_limit),
            'last used': key.last_used_at ?? 'Never',
            revoked: key.revoked_at ?? '',
          })),
        ),
      }
    },
  }),

  defineCommand({
    name: 'keys revoke',
    summary: 'Revoke an API key: the next call with it is refused.',
    arguments: ['ID'],
    options: {},
    async run({ ID }, context) {
      const key = await (await context.database()).transaction((tx) =>
        revokeApiKey(tx, ID, { actor: OPERATOR, now: context.now }),
      )
      return {
        json: represent(key),
        text: `Key ${key.id}, ${key.name}, is revoked since ${key.revoked_at}.`,
      }
    },
  }),
]

function represent(key: ApiKeyRow) {
  return {
    id: key.id,
    account_id: key.account_id,
    name: key.name,
    prefix: key.prefix,
    scopes: readScopes(key.granted_scopes),
    rate_limit: key.rate_limit,
    created_at: key.created_at,
    created_by: key.created_by,
    last_used_at: key.last_used_at,
    revoked_at: key.revoked_at,
    revoked_by: key.revoked_by,
  }
}
