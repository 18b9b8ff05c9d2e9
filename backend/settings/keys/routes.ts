import { lockAccount, setScopeAllowance } from '../../accounts/accounts.ts'
import { parseScopes, SCOPES, type Scope } from '../../accounts/scopes.ts'
import { issueApiKey, listApiKeys, revokeApiKey } from '../../api-keys/api-keys.ts'
import {
  countEnded,
  findOtherKeyNamed,
  KEY_FILTERS,
  type KeyFilter,
  listKeyPage,
} from '../../api-keys/key-list.ts'
import type { ApiKeyRow, Reader, Transaction } from '../../database/tables.ts'
import { readTopErrors } from '../../usage/key-errors.ts'
import { readOperations } from '../../usage/key-operations.ts'
import { readUsage } from '../../usage/usage.ts'
import { findWindow } from '../../usage/usage-reports.ts'
import { createToken } from '../../users/tokens.ts'
import { combineList } from '../forms/concurrent-edit.ts'
import { rejectField } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import { renderKeptFields } from '../shell/kept-form.ts'
import { choiceOf, type ListQuery, listOf, pageOf, parseListQuery } from '../shell/list-query.ts'
import {
  EDIT_METHODS,
  type SessionPage,
  type SessionRequest,
  type SettingsDeps,
} from '../shell/page-request.ts'
import type { Frame, PageResponse } from '../shell/response.ts'
import { READ_SCOPES } from '../shell/words.ts'
import { readEndpointsWithAttempts } from '../webhooks/endpoint-attempts.ts'
import { NAME_IN_USE, renderIssueForm } from './issue-page.ts'
import { renderKey } from './key-page.ts'
import { getKey, recordSubmission } from './key-records.ts'
import { allowedScopes, representKey, representWindow } from './key-view.ts'
import { type KeysPage, renderKeys } from './keys-page.ts'
import { RESTRICTION_FIELDS, readAddresses, readExpiry } from './restriction-fields.ts'
import { renderReveal } from './reveal-page.ts'
import { renderRevoke } from './revoke-page.ts'
import { listScopeLosses, renderScopeAllowance, renderScopeLosses } from './scope-allowance-page.ts'

const ADMINS_ONLY = 'Only an Admin can issue or revoke API keys.'

export const keyPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: '/settings/api-keys',
    async handle({ session, now, query, wantsJson }, { database, flushLastUsed }) {
      const { account } = session
      // Without this, the latest uses of the keys, which this backend still buffers, would be missing.
      await flushLastUsed()
      const list = parseListQuery(query, ['status', 'show'])
      const status = choiceOf(list, 'status', KEY_FILTERS)
      if (!wantsJson) {
        const keys = await readKeys(
          database.read,
          { accountId: account.id, requested: status, now },
          list,
        )
        const endpoints = await readEndpointsWithAttempts(database.read, account.id, now)
        const view = {
          ...{ session, ...keys, endpoints, now, limit: list.value('limit') },
          // `revoked` is the published value, but the list also contains expired keys.
          showsEnded: list.value('show') === 'revoked',
        }
        return { page: (frame) => renderKeys(frame, view) }
      }
      const filter = { status, after: list.cursor, now }
      const found = await listKeyPage(database.read, account.id, filter, list.limit + 1)
      const { rows, next } = pageOf(found, list.limit)
      return {
        json: listOf(
          rows.map((row) => representKey(row, account.scopeAllowance, now)),
          next,
        ),
      }
    },
  },
  {
    method: 'GET',
    path: '/settings/api-keys/new',
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    handle: async ({ query, session }) => ({
      page: (frame) =>
        renderIssueForm(frame, {
          name: '',
          scopes: scopesOfPreset(query.get('preset')),
          expiresOn: '',
          addresses: [],
          timezone: session.account.timezone,
          submission: createToken(),
          isSameNameConfirmed: false,
          allowed: allowedScopes(session.account.scopeAllowance),
        }),
    }),
  },
  {
    method: 'POST',
    path: '/settings/api-keys',
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    expected: {
      texts: ['name', 'submission', 'same_name', ...RESTRICTION_FIELDS.texts],
      lists: ['scopes', ...RESTRICTION_FIELDS.lists],
    },
    async handle(request, { peppers, baseUrl }) {
      const { session, fields, actionContext } = request
      const { account } = session
      const input = {
        accountId: account.id,
        name: fields.text('name'),
        scopes: fields.list('scopes'),
        expiresAt: readExpiry(fields, account.timezone) ?? null,
        allowedAddresses: readAddresses(fields) ?? [],
      }
      const { row, secret } = await request.performAction('key_issued', async (tx) => {
        const issued = await issueApiKey(tx, input, peppers, actionContext)
        // If this form was already sent, or the name must be confirmed, these functions throw: no key is issued.
        await recordSubmission(tx, request, issued.row)
        if (!request.wantsJson) await rejectUnconfirmedName(tx, request, issued.row)
        return issued
      })
      return {
        status: 201,
        json: { ...representKey(row, account.scopeAllowance, actionContext.now), secret },
        page: (frame) => renderReveal(frame, { row, secret, baseUrl }),
      }
    },
    async rerender({ fields, session }, problem) {
      if (problem.code !== 'validation_failed') return undefined
      return (frame) =>
        renderIssueForm(
          frame,
          {
            name: fields.text('name'),
            scopes: fields.list('scopes'),
            expiresOn: fields.text('expires_on'),
            addresses: readAddresses(fields) ?? [],
            timezone: session.account.timezone,
            submission: fields.text('submission'),
            isSameNameConfirmed: fields.text('same_name') !== '',
            allowed: allowedScopes(session.account.scopeAllowance),
          },
          problem,
        )
    },
  },
  {
    method: 'GET',
    path: '/settings/api-keys/{id}',
    async handle({ session, id, now }, { database, usage, flushLastUsed }) {
      await Promise.all([usage.flush(), flushLastUsed()])
      const row = await getKey(database.read, session, id)
      const keyUsage = await readUsage(database.read, row.id, now)
      const errors = await readTopErrors(database.read, row.id, now)
      const operations = await readOperations(database.read, row.id, now)
      const reported = await findWindow(database.read, row.id)
      const window = reported && representWindow(row, reported, now)
      return {
        json: {
          ...representKey(row, session.account.scopeAllowance, now),
          usage: {
            window: window ?? null,
            calls_by_hour: keyUsage.hours,
            calls_by_day: keyUsage.days,
            calls_by_operation: operations,
            top_errors: errors.map(({ code, calls, lastDay }) => ({
              code,
              calls,
              last_day: lastDay,
            })),
          },
        },
        page: (frame) =>
          renderKey(frame, { session, row, usage: keyUsage, operations, errors, window, now }),
      }
    },
  },
  {
    method: 'GET',
    path: '/settings/api-keys/{id}/revoke',
    adminsOnlyMessage: ADMINS_ONLY,
    async handle({ session, id, now }, { database, flushLastUsed }) {
      await flushLastUsed()
      const row = await getKey(database.read, session, id)
      return { page: (frame) => renderRevoke(frame, row, now) }
    },
  },
  {
    method: 'POST',
    path: '/settings/api-keys/{id}/revoke',
    adminsOnlyMessage: ADMINS_ONLY,
    async handle({ session, id, actionContext, performAction }) {
      const row = await performAction('key_revoked', (tx) =>
        revokeApiKey(tx, id, actionContext, session.account.id),
      )
      return {
        json: representKey(row, session.account.scopeAllowance, actionContext.now),
        location: '/settings/api-keys?show=revoked',
      }
    },
  },
]

/**
 * Throws `Problem` `validation_failed` if another active key has the same name and the user has not confirmed this
 * name: keys with the same name look alike in the list. Scripts need no confirmation, so this check is only for forms.
 */
async function rejectUnconfirmedName(
  tx: Transaction,
  { session, fields, now }: SessionRequest,
  { id, name }: ApiKeyRow,
): Promise<void> {
  if (fields.text('same_name') !== '') return
  const found = await findOtherKeyNamed(tx, session.account.id, { id, name, now })
  if (found === undefined) return
  const detail = `Another active key is named ${name} (${found.prefix}). Enter another name, or confirm that you want two keys with this name.`
  rejectField('name', detail, NAME_IN_USE)
}

async function changeAllowance(
  request: SessionRequest,
  { database, flushLastUsed }: SettingsDeps,
): Promise<PageResponse> {
  await flushLastUsed()
  const { session, fields, actionContext } = request
  // A form without any checked box sends no list, which means an empty list. In JSON, a missing list is an error.
  if (fields.isJson && !fields.has('scopes')) {
    rejectField('scopes', 'scopes is required. Send an empty list to allow no scope.', 'required')
  }
  if (!request.wantsJson && fields.text('confirmed') === '') {
    const rows = await listApiKeys(database.read, session.account.id)
    const { scopeAllowance } = session.account
    const scopes = newScopesOf(fields, scopeAllowance)
    const losses = listScopeLosses(rows, scopeAllowance, scopes, request.now)
    if (losses.length > 0) {
      // The confirmation also repeats the initial values: the allowance may change before it is sent.
      const keptFields = renderKeptFields(fields.entries().filter(([name]) => name !== 'confirmed'))
      return {
        page: (frame: Frame) =>
          renderScopeLosses(frame, { session, keptFields, losses, now: request.now }),
      }
    }
  }
  const account = await request.performAction('scopes_changed', async (tx) => {
    const { scope_allowance } = await lockAccount(tx, session.account.id)
    const scopes = newScopesOf(fields, scope_allowance)
    // Allowing all current scopes is stored as no restriction, so that future scopes are allowed too.
    const allowance = scopes.length === SCOPES.length ? null : scopes
    return setScopeAllowance(tx, session.account.id, allowance, actionContext)
  })
  return {
    json: { scopes: allowedScopes(account.scope_allowance) },
    location: '/settings/api-keys',
  }
}

/**
 * Without `combineList`, a form that was opened before another person removed a scope would allow this scope again.
 * Throws `Problem` `validation_failed`.
 */
function newScopesOf(fields: Fields, allowance: string | null): Scope[] {
  return parseScopes(combineList(fields, 'scopes', allowedScopes(allowance)))
}

export const scopeAllowancePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: '/settings/scope-allowance',
    async handle({ session, now }, { database }) {
      const scopes = allowedScopes(session.account.scopeAllowance)
      const rows = await listApiKeys(database.read, session.account.id)
      return {
        json: { scopes },
        page: (frame) => renderScopeAllowance(frame, { session, scopes, rows, now }),
      }
    },
  },
  {
    method: EDIT_METHODS,
    path: '/settings/scope-allowance',
    adminsOnlyMessage: 'Only an Admin can change the account-wide permissions of API keys.',
    expected: { texts: ['confirmed'], lists: ['scopes'], ignoresUnchangedFields: true },
    handle: changeAllowance,
  },
]

async function readKeys(
  reader: Reader,
  { accountId, requested, now }: { accountId: string; requested: KeyFilter | undefined; now: Date },
  { limit, cursor }: ListQuery,
): Promise<KeysPage> {
  const read = async (status: KeyFilter) => {
    const filter = { status, after: cursor, now }
    return pageOf(await listKeyPage(reader, accountId, filter, limit + 1), limit)
  }
  const emptyPage = pageOf<ApiKeyRow>([], limit)
  const [active, ended, counts] = await Promise.all([
    requested === undefined || requested === 'active' ? read('active') : emptyPage,
    requested === 'active' ? emptyPage : read(requested ?? 'ended'),
    countEnded(reader, accountId, now),
  ])
  return { status: requested, active, ended, counts }
}

function scopesOfPreset(name: string | null): readonly string[] {
  if (name === 'read') return READ_SCOPES
  return name === 'payments' ? ['payments:write'] : []
}
