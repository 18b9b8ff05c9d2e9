/**
 * A POST runs checks in the order of docs/errors.md, then one transaction. A repeated request gets its stored response
 * before fields are validated, because a value that was valid the first time may be invalid now.
 */
import { createHash } from 'node:crypto'
import type { ObjectSchema } from 'joi'
import { Problem } from '../../shared/contract/problem.ts'
import { todayIn } from '../calendar/calendar.ts'
import type { Reader, Transaction } from '../database/database.ts'
import { keyReused, type Recorded } from '../idempotency/idempotency.ts'
import { shortenHugeLists, validateBody } from '../validation/body.ts'
import { canonicalJson, type JsonObject, parseJsonObject } from '../validation/json.ts'
import type { Caller } from './caller.ts'
import type { Call, Operation, Response } from './operation.ts'
import { parametersOf, parseQuery } from './query.ts'

export interface WriteContext {
  readonly caller: Caller
  readonly now: Date
  readonly idempotencyKey: string | undefined
  /** A digest of the operation and the body's canonical JSON; undefined without an idempotency key. */
  readonly fingerprint: string | undefined
}

export interface Created {
  readonly id: string
  readonly representation: object
}

export interface WriteOptions<Body> {
  readonly operationId: string
  readonly body: ObjectSchema<Body>
  readonly idempotencyKey: 'required' | 'optional'
  /** The member of the problem `idempotency_key_reused` that contains the id of the first request's resource. */
  readonly originalIdMember: string
  create(tx: Transaction, context: WriteContext, body: Body): Promise<Created>
  /**
   * Finds the id of the only debtor whose records the transaction changes (`debtorId` of `TransactionScope`), exactly
   * as the database contains it. `body` is not validated yet, so an id in it may not exist or may not be normalized.
   */
  findDebtorId?(reader: Reader, accountId: string, body: JsonObject): Promise<string | undefined>
  /**
   * Finds the resource that an earlier request with the same idempotency key created, even if the stored response has
   * expired. Called when validation or `create` has rejected the request, because the request may be a repeat: its body
   * may have become invalid, or `create` failed because the resource already exists. The client then receives the
   * resource instead of the error. `same` is whether the body would create an equal resource.
   */
  recall?(
    reader: Reader,
    context: WriteContext & { readonly idempotencyKey: string },
    body: JsonObject,
  ): Promise<(Created & { readonly same: boolean }) | undefined>
}

export function writeOperation<Body>(options: WriteOptions<Body>): Operation {
  const { operationId, originalIdMember } = options
  return {
    operationId,
    async respond(call, services) {
      checkWritable(call.caller, services.baseUrl)
      checkMediaType(call.headers)
      const key = readIdempotencyKey(call.headers, options.idempotencyKey)
      // Rejects every query parameter.
      parseQuery({}, parametersOf(call.query))
      const sent = parseJsonObject(call.payload)
      const today = todayIn(call.caller.account.timezone, call.now)
      const fingerprint = key === undefined ? undefined : fingerprintOf(operationId, sent)
      const context = { caller: call.caller, now: call.now, idempotencyKey: key, fingerprint }
      const prepare = () => {
        // Only lists that are too long are shortened, and validation still rejects them, but in less time.
        const body = validateBody(options.body, shortenHugeLists(sent), today)
        return async (tx: Transaction) => recordedOf(await options.create(tx, context, body))
      }
      if (key === undefined || fingerprint === undefined) {
        const { id: accountId } = call.caller.account
        const recorded = await services.database.transaction(prepare(), { accountId })
        return responseOf(call.path, recorded)
      }
      const attempt = {
        accountId: call.caller.account.id,
        operation: operationId,
        key,
        fingerprint,
      }
      const recall = async (reader: Reader) => {
        const found = await options.recall?.(reader, { ...context, idempotencyKey: key }, sent)
        if (found?.same === false) throw keyReused({ [originalIdMember]: found.id })
        return found && recordedOf(found)
      }
      const findDebtorId = async (reader: Reader) =>
        await options.findDebtorId?.(reader, attempt.accountId, sent)
      const write = { prepare, recall, findDebtorId, originalIdMember }
      return responseOf(call.path, await services.idempotency.once(attempt, write))
    },
  }
}

function recordedOf({ id, representation }: Created): Recorded {
  return { resourceId: id, body: JSON.stringify(representation) }
}

function responseOf(path: string, outcome: Recorded & { readonly replayed?: boolean }): Response {
  const location = `${path}/${outcome.resourceId}`
  return {
    status: 201,
    body: outcome.body,
    headers: outcome.replayed ? { location, 'idempotent-replayed': 'true' } : { location },
  }
}

function fingerprintOf(operationId: string, body: JsonObject): string {
  return createHash('sha256')
    .update(`${operationId}\n${canonicalJson(body)}`)
    .digest('base64url')
}

function checkWritable({ account }: Caller, baseUrl: string): void {
  if (!account.readOnly) return
  const state = account.status === 'trial_paused' ? 'on a paused trial' : account.status
  throw new Problem(
    'account_read_only',
    `This account is ${state}. It can be read, but nothing can be written.`,
    {
      members: { account_status: account.status, resume_url: `${baseUrl}/settings/account-state` },
    },
  )
}

type Headers = Call['headers']

/**
 * Only the parameter `charset` is accepted: with any other parameter, the body might not be plain JSON. Parameters can
 * be empty (RFC 9110, section 5.6.6), as in `application/json;`.
 */
const JSON_MEDIA_TYPE =
  /^application\/json[\t ]*(?:(?:;[\t ]*)+(?:charset=(?:utf-8|"utf-8")[\t ]*(?:;[\t ]*)*)?)?$/i

function checkMediaType(headers: Headers): void {
  const type = headers['content-type']
  const encoding = headers['content-encoding']
  const isJson = typeof type === 'string' && JSON_MEDIA_TYPE.test(type)
  const isPlain = encoding === undefined || /^identity$/i.test(String(encoding))
  if (isJson && isPlain) return
  throw new Problem(
    'unsupported_media_type',
    isJson
      ? 'Send the body as it is, without a Content-Encoding.'
      : 'Send the body as JSON in UTF-8, with Content-Type: application/json.',
    { headers: { accept: 'application/json' } },
  )
}

/** Returns the key without the quotes in which the IETF draft of the header `Idempotency-Key` requires it. */
export function unquoteKey(text: string): string {
  return /^"(.*)"$/.exec(text)?.[1] ?? text
}

/** Accepts the key as it is, or as a quoted string, as the IETF draft of the header `Idempotency-Key` requires. */
function readIdempotencyKey(
  headers: Headers,
  presence: 'required' | 'optional',
): string | undefined {
  const sent = headers['idempotency-key']
  if (sent === undefined) {
    if (presence === 'optional') return undefined
    throw new Problem(
      'idempotency_key_required',
      'Send an Idempotency-Key header, so that a retry cannot record the money twice.',
    )
  }
  // Two Idempotency-Key headers arrive joined by a comma and a space. No key contains a space, so the check
  // below rejects them.
  const key = unquoteKey(String(sent))
  if (/^[\x21-\x7e]{1,255}$/.test(key)) return key
  throw new Problem(
    'idempotency_key_invalid',
    'Send one Idempotency-Key of 1 to 255 visible ASCII characters.',
  )
}
