/** API keys: the inventory, issue with its one reveal, revoke; what an account's keys may do. */
import { Problem } from '../../../shared/contract/problem.ts'
import { setScopeAllowance } from '../../accounts/accounts.ts'
import { parseScopes, SCOPES } from '../../accounts/scopes.ts'
import { issueApiKey, listApiKeys, revokeApiKey } from '../../api-keys/api-keys.ts'
import { countRevoked, findApiKey, KEY_STATUSES, listKeyPage } from '../../api-keys/key-list.ts'
import { ConstraintViolation } from '../../database/constraint-violation.ts'
import type { ApiKeyRow, Reader, Transaction } from '../../database/tables.ts'
import { type Session, setFlash } from '../../sessions/sessions.ts'
import { readTopErrors } from '../../usage/key-errors.ts'
import { readUsage } from '../../usage/usage.ts'
import { findWindow } from '../../usage/usage-reports.ts'
import { createToken, hashToken } from '../../users/tokens.ts'
import { notFound } from '../shell/faults.ts'
import { type ListQuery, listOf, pageOf, parseListQuery, wordOf } from '../shell/list-query.ts'
import type { SessionPage, SessionRequest } from '../shell/page-request.ts'
import { renderReveal } from '../shell/reveal-page.ts'
import { renderAllowance } from './allowance-page.ts'
import { renderIssueForm } from './issue-page.ts'
import { renderKey } from './key-page.ts'
import { allowedScopes, representKey, representWindow } from './key-view.ts'
import { type KeysPage, renderKeys } from './keys-page.ts'
import { renderRevoke } from './revoke-page.ts'

const ADMINS_ONLY = 'Only an Admin can issue or revoke API keys.'

export const keyPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: '/settings/api-keys',
    async handle({ session, now, query, wantsJson }, { database }) {
      const { account } = session
      const list = parseListQuery(query, ['status', 'show'])
      const status = wordOf(list, 'status', KEY_STATUSES)
      if (!wantsJson) {
        const keys = await readKeys(database.read, account.id, list, status)
        const showsRevoked = list.value('show') === 'revoked'
        return { page: (frame) => renderKeys(frame, { session, ...keys, now, showsRevoked }) }
      }
      const wanted = { status, after: list.cursor }
      const found = await listKeyPage(database.read, account.id, wanted, list.limit + 1)
      const { rows, next } = pageOf(found, list.limit)
      return {
        json: listOf(
          rows.map((row) => representKey(row, account.scopeAllowance)),
          next,
        ),
      }
    },
  },
  {
    method: 'GET',
    path: '/settings/api-keys/new',
    admins: ADMINS_ONLY,
    handle: async ({ query, session }) => ({
      page: (frame) =>
        renderIssueForm(frame, {
          name: '',
          scopes: presetOf(query.get('preset')),
          submission: createToken(),
          allowed: allowedScopes(session.account.scopeAllowance),
        }),
    }),
  },
  {
    method: 'POST',
    path: '/settings/api-keys',
    admins: ADMINS_ONLY,
    expected: { texts: ['name', 'submission'], lists: ['scopes'] },
    async handle(request, { database, peppers, baseUrl }) {
      const { session, fields, act } = request
      const { account } = session
      const { row, secret } = await database.transaction(async (tx) => {
        const issued = await issueApiKey(
          tx,
          { accountId: account.id, name: fields.text('name'), scopes: fields.list('scopes') },
          peppers,
          act,
        )
        await recordSubmission(tx, request, issued.row)
        if (!request.wantsJson) await setFlash(tx, session.token, 'key_issued')
        return issued
      })
      return {
        status: 201,
        json: { ...representKey(row, account.scopeAllowance), secret },
        page: (frame) => renderReveal(frame, { row, secret, baseUrl }),
      }
    },
    async redraw({ fields, session }, problem) {
      if (problem.code !== 'validation_failed') return undefined
      return (frame) =>
        renderIssueForm(
          frame,
          {
            name: fields.text('name'),
            scopes: fields.list('scopes'),
            submission: fields.text('submission'),
            allowed: allowedScopes(session.account.scopeAllowance),
          },
          problem,
        )
    },
  },
  {
    method: 'GET',
    path: '/settings/api-keys/{id}',
    async handle({ session, id, now }, { database, usage }) {
      await usage.flush()
      const row = await getKey(database.read, session, id)
      const used = await readUsage(database.read, row.id, now)
      const errors = await readTopErrors(database.read, row.id, now)
      const reported = await findWindow(database.read, row.id)
      const window = reported && representWindow(row, reported, now)
      return {
        json: {
          ...representKey(row, session.account.scopeAllowance),
          usage: {
            window: window ?? null,
            calls_by_hour: used.hours,
            calls_by_day: used.days,
            top_errors: errors.map(({ code, calls, lastDay }) => ({
              code,
              calls,
              last_day: lastDay,
            })),
          },
        },
        page: (frame) => renderKey(frame, { session, row, usage: used, errors, window, now }),
      }
    },
  },
  {
    method: 'GET',
    path: '/settings/api-keys/{id}/revoke',
    admins: ADMINS_ONLY,
    async handle({ session, id, now }, { database }) {
      const row = await getKey(database.read, session, id)
      return { page: (frame) => renderRevoke(frame, row, now) }
    },
  },
  {
    method: 'POST',
    path: '/settings/api-keys/{id}/revoke',
    admins: ADMINS_ONLY,
    async handle({ session, id, act, wantsJson }, { database }) {
      const row = await database.transaction(async (tx) => {
        if (!wantsJson) await setFlash(tx, session.token, 'key_revoked')
        return revokeApiKey(tx, id, act, session.account.id)
      })
      return {
        json: representKey(row, session.account.scopeAllowance),
        location: '/settings/api-keys?show=revoked',
      }
    },
  },
]

async function changeAllowance(
  request: SessionRequest,
  { database }: Parameters<SessionPage['handle']>[1],
) {
  const { session, fields, act } = request
  // Forms cannot send an empty list; for JSON leaving it out is a mistake, not "nothing".
  if (fields.isJson && !fields.has('scopes')) {
    const detail = 'scopes is required: a list, empty for none.'
    throw new Problem('validation_failed', detail, {
      members: { errors: [{ pointer: '/scopes', code: 'required', detail }] },
    })
  }
  const scopes = parseScopes(fields.list('scopes'))
  // Scopes that are yet to come are not narrowed away by allowing all there are.
  const bound = scopes.length === SCOPES.length ? null : scopes
  const account = await database.transaction(async (tx) => {
    if (!request.wantsJson) await setFlash(tx, session.token, 'scopes_changed')
    return setScopeAllowance(tx, session.account.id, bound, act)
  })
  return {
    json: { scopes: allowedScopes(account.scope_allowance) },
    location: '/settings/api-keys',
  }
}

const CHANGE_ALLOWANCE = {
  path: '/settings/scope-allowance',
  admins: 'Only an Admin can change what API keys may do.',
  expected: { lists: ['scopes'] },
  handle: changeAllowance,
}

export const allowancePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: '/settings/scope-allowance',
    async handle({ session }, { database }) {
      const scopes = allowedScopes(session.account.scopeAllowance)
      const rows = await listApiKeys(database.read, session.account.id)
      return {
        json: { scopes },
        page: (frame) => renderAllowance(frame, { session, scopes, rows }),
      }
    },
  },
  { ...CHANGE_ALLOWANCE, method: 'PUT' },
  { ...CHANGE_ALLOWANCE, method: 'POST' },
]

/** A form that is sent again, by a second click or by loading its answer again, issues nothing. */
async function recordSubmission(
  tx: Transaction,
  { fields, session, act }: SessionRequest,
  row: ApiKeyRow,
) {
  const submission = fields.text('submission')
  if (submission === '') return
  try {
    await tx
      .insertInto('key_submissions')
      .values({
        submission: hashToken(`${session.user.id} ${submission}`),
        account_id: session.account.id,
        key_id: row.id,
        created_at: act.now.toISOString(),
      })
      .execute()
  } catch (error) {
    if (!(error instanceof ConstraintViolation && error.kind === 'unique')) throw error
    throw new Problem(
      'key_already_issued',
      'This key was already issued. Its secret was shown once and cannot be shown again. If you did not store it, revoke the key and issue another.',
    )
  }
}

/** The first page of both kinds, or the page of one that was asked for. */
async function readKeys(
  reader: Reader,
  accountId: string,
  { limit, cursor }: ListQuery,
  asked: KeysPage['status'],
): Promise<KeysPage> {
  const read = async (status: (typeof KEY_STATUSES)[number]) => {
    if (asked !== undefined && asked !== status) return pageOf<ApiKeyRow>([], limit)
    const wanted = { status, after: cursor }
    return pageOf(await listKeyPage(reader, accountId, wanted, limit + 1), limit)
  }
  const [active, revoked, revokedCount] = await Promise.all([
    read('active'),
    read('revoked'),
    countRevoked(reader, accountId),
  ])
  return { status: asked, active, revoked, revokedCount }
}

async function getKey(reader: Reader, { account }: Session, id: string): Promise<ApiKeyRow> {
  return (await findApiKey(reader, account.id, id)) ?? notFound('API key', id)
}

function presetOf(name: string | null): readonly string[] {
  if (name === 'read') return SCOPES.filter((scope) => scope.endsWith(':read'))
  return name === 'payments' ? ['payments:write'] : []
}
