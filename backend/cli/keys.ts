import { getAccount } from '../accounts/accounts.ts'
import { readScopes, SCOPES } from '../accounts/scopes.ts'
import {
  issueApiKey,
  listApiKeys,
  lockApiKey,
  RATE_LIMIT_DEFAULT,
  revokeApiKey,
} from '../api-keys/api-keys.ts'
import {
  changeApiKey,
  GRACE_PERIODS_MS,
  type GracePeriod,
  rotateApiKey,
} from '../api-keys/key-changes.ts'
import { keyStatus, readAllowedAddresses } from '../api-keys/key-status.ts'
import { parseInstant } from '../calendar/calendar.ts'
import type { ApiKeyRow } from '../database/tables.ts'
import { withFullStop } from '../validation/full-stop.ts'
import {
  ACCOUNT,
  type Command,
  defineCommand,
  renderTable,
  splitList,
  UsageError,
} from './command.ts'
import { parseListOrNone, parseWholeNumber } from './input/option-values.ts'

const EXPIRES_AT = {
  type: 'string',
  value: 'T',
  description: 'The instant at which the key expires, e.g. 2027-01-01T00:00:00Z.',
} as const

const ADDRESSES = {
  type: 'string',
  value: 'A,…',
  description:
    'The IP addresses or networks (CIDR) that calls with the key may come from. The value “none” removes this restriction.',
} as const

export const keyCommands: readonly Command[] = [
  defineCommand({
    name: 'keys issue',
    summary: 'Issue an API key. Its secret is printed only once.',
    arguments: [],
    options: {
      account: ACCOUNT,
      name: { type: 'string', required: true, value: 'N', description: 'The name of the key.' },
      scopes: {
        type: 'string',
        required: true,
        value: 'S,…',
        description: `The scopes of the key, which cannot be changed later: ${SCOPES.join(', ')}.`,
      },
      'rate-limit': {
        type: 'string',
        value: 'N',
        description: `The number of calls per hour. The default is ${RATE_LIMIT_DEFAULT}.`,
      },
      'expires-at': {
        ...EXPIRES_AT,
        description: `${EXPIRES_AT.description} Without it, the key never expires.`,
      },
      addresses: {
        ...ADDRESSES,
        description:
          'The IP addresses or networks (CIDR) that calls with the key may come from. The default is any.',
      },
    },
    async run({ account, name, scopes, 'rate-limit': limit, ...restrictions }, context) {
      const peppers = context.peppers()
      const input = {
        accountId: account,
        name,
        scopes: splitList(scopes),
        ...(limit === undefined ? {} : { rateLimit: parseWholeNumber('--rate-limit', limit) }),
        ...readRestrictions(restrictions),
      }
      const { row, secret } = await context.performAction((tx, actionContext) =>
        issueApiKey(tx, input, peppers, actionContext),
      )
      return {
        json: {
          id: row.id,
          secret,
          prefix: row.prefix,
          name: row.name,
          scopes: readScopes(row.granted_scopes),
          rate_limit: row.rate_limit,
          expires_at: row.expires_at,
          allowed_addresses: readAllowedAddresses(row.allowed_addresses),
          account_id: row.account_id,
          created_at: row.created_at,
        },
        text: `${withFullStop(`Issued key ${row.id}, ${row.name}`)} Store its secret now: it cannot be shown again.\n\n  ${secret}\n`,
      }
    },
  }),

  defineCommand({
    name: 'keys list',
    summary: 'List the API keys of an account, including revoked ones.',
    arguments: [],
    options: { account: ACCOUNT },
    async run({ account }, context) {
      const { read } = await context.database()
      const { id } = await getAccount(read, account)
      const keys = await listApiKeys(read, id)
      const now = context.clock()
      return {
        json: keys.map((key) => represent(key, now)),
        text: renderTable(
          keys.map((key) => ({
            id: key.id,
            name: key.name,
            prefix: key.prefix,
            scopes: readScopes(key.granted_scopes).join(','),
            limit: String(key.rate_limit),
            'last used': key.last_used_at ?? 'Never',
            status: keyStatus(key, now),
            expires: key.expires_at ?? 'Never',
            revoked: key.revoked_at ?? '',
          })),
        ),
      }
    },
  }),

  defineCommand({
    name: 'keys revoke',
    summary: 'Revoke an API key: the next call with it is rejected.',
    arguments: ['ID'],
    options: {},
    async run({ ID }, context) {
      const key = await context.performAction((tx, actionContext) =>
        revokeApiKey(tx, ID, actionContext),
      )
      return {
        json: represent(key, context.clock()),
        text: `Key ${key.id}, ${key.name}, was revoked at ${key.revoked_at}.`,
      }
    },
  }),

  defineCommand({
    name: 'keys change',
    summary:
      'Rename a key, let it expire earlier, or change the addresses that it may be used from.',
    arguments: ['ID'],
    options: {
      name: { type: 'string', value: 'N', description: 'The new name.' },
      'expires-at': EXPIRES_AT,
      addresses: ADDRESSES,
    },
    async run({ ID, name, ...restrictions }, context) {
      const change = { ...(name === undefined ? {} : { name }), ...readRestrictions(restrictions) }
      if (Object.keys(change).length === 0) throw new UsageError('At least one option is required')
      const key = await context.performAction((tx, actionContext) =>
        changeApiKey(tx, ID, change, actionContext),
      )
      return {
        json: represent(key, context.clock()),
        text: `Key ${key.id}, ${key.name}, was changed. The change takes effect with the key’s next call.`,
      }
    },
  }),

  defineCommand({
    name: 'keys rotate',
    summary:
      'Issue a replacement for a key, with the same scopes, rate limit and addresses. The old key stops working after a grace period. The new secret is printed only once.',
    arguments: ['ID'],
    options: {
      grace: {
        type: 'string',
        required: true,
        value: 'G',
        description: `The grace period, after which the old key stops working: ${Object.keys(GRACE_PERIODS_MS).join(', ')}.`,
      },
      name: {
        type: 'string',
        value: 'N',
        description: 'The name of the new key. The default is the name of the old key.',
      },
      'expires-at': {
        ...EXPIRES_AT,
        description:
          'The instant at which the new key expires, e.g. 2027-01-01T00:00:00Z. Without it, the new key never expires.',
      },
    },
    async run({ ID, grace, name, ...restrictions }, context) {
      const gracePeriod = Object.keys(GRACE_PERIODS_MS).find(
        (word): word is GracePeriod => word === grace,
      )
      if (gracePeriod === undefined)
        throw new UsageError(`--grace must be one of ${Object.keys(GRACE_PERIODS_MS).join(', ')}`)
      const { expiresAt = null } = readRestrictions(restrictions)
      const peppers = context.peppers()
      const { row, secret, replaced } = await context.performAction(async (tx, actionContext) => {
        const old = await lockApiKey(tx, ID)
        const rotation = { name: name ?? old.name, expiresAt, grace: gracePeriod }
        return rotateApiKey(tx, ID, rotation, peppers, actionContext)
      })
      // With the grace period `now`, the old key is already revoked. With any other period, it has an expiry.
      const end = replaced.revoked_at ?? replaced.expires_at
      return {
        json: {
          ...represent(row, context.clock()),
          secret,
          replaced: represent(replaced, context.clock()),
        },
        text: `Issued key ${row.id}. The old key ${replaced.id} stops working at ${end}. Store the new secret now: it cannot be shown again.\n\n  ${secret}\n`,
      }
    },
  }),
]

/**
 * Throws `UsageError`. An absent option has no member in the result. `--addresses none` becomes an empty list, which
 * removes the restriction.
 */
function readRestrictions(options: {
  readonly 'expires-at'?: string | undefined
  readonly addresses?: string | undefined
}) {
  const { 'expires-at': expiresAt, addresses } = options
  const instant = expiresAt === undefined ? undefined : parseInstant(expiresAt)
  if (expiresAt !== undefined && instant === undefined) {
    throw new UsageError('--expires-at must be a time with a UTC offset, e.g. 2027-01-01T00:00:00Z')
  }
  return {
    ...(instant === undefined ? {} : { expiresAt: instant }),
    ...(addresses === undefined
      ? {}
      : { allowedAddresses: parseListOrNone('--addresses', addresses) }),
  }
}

function represent(key: ApiKeyRow, now: Date) {
  return {
    id: key.id,
    account_id: key.account_id,
    name: key.name,
    prefix: key.prefix,
    scopes: readScopes(key.granted_scopes),
    rate_limit: key.rate_limit,
    status: keyStatus(key, now),
    expires_at: key.expires_at,
    allowed_addresses: readAllowedAddresses(key.allowed_addresses),
    replaced_by: key.replaced_by,
    created_at: key.created_at,
    created_by: key.created_by,
    last_used_at: key.last_used_at,
    revoked_at: key.revoked_at,
    revoked_by: key.revoked_by,
  }
}
