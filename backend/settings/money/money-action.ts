/**
 * Actions on money in Settings: a form, a preview, and the action itself. Each is a separate request, and works
 * without JavaScript. The preview contains an idempotency key, so that a double click performs the action only once.
 * JSON clients send a key of their own.
 */
import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { Problem } from '../../../shared/contract/problem.ts'
import { isReadOnly } from '../../accounts/accounts.ts'
import type { Reader, Transaction } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import type { Outcome } from '../../idempotency/idempotency.ts'
import { setFlash, type Undo } from '../../sessions/flash.ts'
import type { Session } from '../../sessions/sessions.ts'
import { type Labels, withFieldLabels } from '../shell/faults.ts'
import { type Expected, Fields } from '../shell/fields.ts'
import type { FlashName } from '../shell/flash-words.ts'
import { renderKeptFields } from '../shell/kept-form.ts'
import { renderHidden } from '../shell/layout.ts'
import type { SessionPage, SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import type { Frame, Response } from '../shell/response.ts'
import { type Effects, previewEffects, representEffects, type Subject } from './effects.ts'

export interface MoneyAction<Form extends Subject, Input, Done> {
  readonly paths: MoneyActionPaths
  /**
   * The name of the operation, which is stored with the idempotency key. It must never change: otherwise a request
   * that is repeated after an update would be performed twice.
   */
  readonly operation: string
  /** The message of the error page that Members receive. */
  readonly adminsOnly: string
  readonly flash: FlashName
  /** Returns the request that undoes the action. Without it, the page that follows offers no Undo. */
  readonly undo?: (form: Form, done: Done, input: Input) => Undo | undefined
  /** Whether the response has the status 201. */
  readonly isCreation?: boolean
  readonly expected: Expected
  /** Loads the subject of the form. Throws `not_found`, and problems of its state such as `payment_already_reversed`. */
  load(reader: Reader, request: SessionRequest): Promise<Form>
  /** The initial values of the form. */
  defaults(form: Form): Readonly<Record<string, string | readonly string[]>>
  renderForm(frame: Frame, form: Form, entered: Fields, problem: Problem | undefined): Html
  /** Throws `validation_failed`. */
  parse(form: Form, entered: Fields): Input
  perform(tx: Transaction, request: SessionRequest, form: Form, input: Input): Promise<Done>
  renderPreview(frame: Frame, preview: Preview<Form, Input>): Html
  /** The JSON of the changed record, as GET returns it. */
  represent(form: Form, done: Done): { readonly id: string }
  /** The page to show afterwards. */
  location(id: string): string
}

export interface MoneyActionPaths {
  readonly form: string
  readonly preview: string
  readonly edit: string
  readonly action: string
}

export interface Preview<Form, Input> {
  readonly form: Form
  readonly input: Input
  readonly effects: Effects
  /** The entered values and an idempotency key, as hidden fields. */
  readonly hidden: Html
}

const LABELS: Labels = {
  received_on: 'Received on',
  reference: 'Reference',
  currency: 'Currency',
}

export const KEY_FIELD = 'idempotency_key'
/** Visible ASCII, as in the API's header. */
const KEY_PATTERN = /^[\x21-\x7e]{1,255}$/

export function moneyActionPages<Form extends Subject, Input, Done>(
  action: MoneyAction<Form, Input, Done>,
): readonly SessionPage[] {
  const { adminsOnly, paths } = action
  const expected = { ...action.expected, texts: [...(action.expected.texts ?? []), KEY_FIELD] }
  const rerender: NonNullable<SessionPage['rerender']> = async (request, problem, { database }) => {
    if (needsErrorPage(problem)) return undefined
    const form = await action.load(database.read, request)
    const labeled = withFieldLabels(problem, LABELS)
    return (frame) => action.renderForm(frame, form, request.fields, labeled)
  }
  return [
    {
      method: 'GET',
      path: paths.form,
      adminsOnly,
      async handle(request, { database }) {
        rejectIfReadOnly(request.session)
        const form = await action.load(database.read, request)
        const entered = fieldsOf(action.defaults(form))
        return { page: (frame) => action.renderForm(frame, form, entered, undefined) }
      },
    },
    {
      method: 'POST',
      path: paths.edit,
      adminsOnly,
      expected,
      rerender,
      async handle(request, { database }) {
        const form = await action.load(database.read, request)
        return { page: (frame) => action.renderForm(frame, form, request.fields, undefined) }
      },
    },
    {
      method: 'POST',
      path: paths.preview,
      adminsOnly,
      expected,
      rerender,
      async handle(request, { database }) {
        rejectIfReadOnly(request.session)
        const form = await action.load(database.read, request)
        const input = action.parse(form, request.fields)
        const { effects } = await previewEffects(database, form, (tx) =>
          action.perform(tx, request, form, input),
        )
        const hidden = renderEntered(request.fields)
        return {
          json: representEffects(effects),
          page: (frame) => action.renderPreview(frame, { form, input, effects, hidden }),
        }
      },
    },
    {
      method: 'POST',
      path: paths.action,
      adminsOnly,
      expected,
      rerender,
      handle: (request, deps) => performMoneyAction(action, request, deps),
    },
  ]
}

async function performMoneyAction<Form extends Subject, Input, Done>(
  action: MoneyAction<Form, Input, Done>,
  request: SessionRequest,
  deps: SettingsDeps,
): Promise<Response> {
  let undo: Undo | undefined
  const options = {
    operation: action.operation,
    flash: action.flash,
    location: action.location,
    undo: () => undo,
  }
  const response = await performOnce(request, deps, options, async (tx) => {
    const form = await action.load(tx, request)
    const input = action.parse(form, request.fields)
    const done = await action.perform(tx, request, form, input)
    undo = action.undo?.(form, done, input)
    return action.represent(form, done)
  })
  return action.isCreation ? { status: 201, ...response } : response
}

export interface OnceOptions {
  readonly operation: string
  readonly flash: FlashName
  /** Called after the action. Returns the request that undoes the action. */
  undo?(): Undo | undefined
  location(id: string): string
  /** Set this only if a repeated request is rejected anyway, because of the state after the first request. */
  readonly isKeyOptional?: boolean
}

/** Calls `perform` once for each idempotency key. `perform` resolves with the JSON of the changed record. */
export async function performOnce(
  request: SessionRequest,
  deps: SettingsDeps,
  { operation, flash, undo, location, isKeyOptional }: OnceOptions,
  perform: (tx: Transaction) => Promise<{ readonly id: string }>,
): Promise<Response> {
  const { session, fields, wantsJson } = request
  rejectIfReadOnly(session)
  const performWithFlash = async (tx: Transaction) => {
    const changed = await perform(tx)
    if (!wantsJson) await setFlash(tx, session.token, flash, undo?.())
    return changed
  }
  if (isKeyOptional && !fields.has(KEY_FIELD)) {
    const changed = await deps.database.transaction(performWithFlash)
    return { json: changed, location: location(changed.id) }
  }
  const outcome = await once(request, deps, operation, performWithFlash)
  return { json: JSON.parse(outcome.body), location: location(outcome.resourceId) }
}

export interface CreateOnceOptions {
  readonly operation: string
  /** The message of the page that follows a repeated request. */
  readonly repeatedFlash: FlashName
  location(id: string): string
}

/**
 * Creates a record whose page shows a secret once. If the request has an idempotency key, the record is created once for
 * this key: `respond` is called for the first request only, and a repeated request leads to the record. `create` resolves
 * with the record's JSON, which is stored and must not contain the secret.
 */
export async function createOnce<Created>(
  request: SessionRequest,
  deps: SettingsDeps,
  { operation, repeatedFlash, location }: CreateOnceOptions,
  create: (tx: Transaction) => Promise<{ readonly json: { readonly id: string } } & Created>,
  respond: (created: Created) => Response,
): Promise<Response> {
  const created: Created[] = []
  const createFirst = async (tx: Transaction) => {
    const record = await create(tx)
    created.push(record)
    return record.json
  }
  if (!request.fields.has(KEY_FIELD)) {
    await deps.database.transaction(createFirst)
    return respond(only(created))
  }
  const outcome = await once(request, deps, operation, createFirst)
  if (!outcome.replayed) return respond(only(created))
  const { session, wantsJson } = request
  if (!wantsJson) {
    await deps.database.transaction((tx) => setFlash(tx, session.token, repeatedFlash))
  }
  return { json: JSON.parse(outcome.body), location: location(outcome.resourceId) }
}

/** The transaction may have been repeated after a conflict: the last attempt was committed. */
function only<Created>(created: readonly Created[]): Created {
  const last = created.at(-1)
  assert(last !== undefined)
  return last
}

/** Calls `perform` in a transaction, unless an earlier request with the idempotency key of the form was performed. */
function once(
  request: SessionRequest,
  { idempotency }: SettingsDeps,
  operation: string,
  perform: (tx: Transaction) => Promise<{ readonly id: string }>,
): Promise<Outcome> {
  const attempt = {
    accountId: request.session.account.id,
    operation,
    key: keyOf(request.fields),
    fingerprint: fingerprintOf(operation, request),
  }
  return idempotency.once(attempt, {
    originalMember: 'original_id',
    // A key is stored for 30 days, which is longer than a session lasts. A form that is sent later is therefore only
    // shown again, and nothing is performed.
    recall: async () => undefined,
    prepare: () => async (tx) => {
      const changed = await perform(tx)
      return { resourceId: changed.id, body: JSON.stringify(changed) }
    },
  })
}

/** Rejects changes to the records of a read-only account, as the API does. */
export function rejectIfReadOnly({ account }: Session): void {
  if (!isReadOnly(account.status)) return
  const state = account.status === 'trial_paused' ? 'on a paused trial' : account.status
  throw new Problem(
    'account_read_only',
    `This account is ${state}. Its customers, invoices and payments can be read, but not changed.`,
    { members: { account_status: account.status } },
  )
}

function needsErrorPage({ code }: Problem): boolean {
  return ['not_found', 'account_read_only'].includes(code) || code.startsWith('idempotency_')
}

function keyOf(fields: Fields): string {
  const key = fields.text(KEY_FIELD)
  if (KEY_PATTERN.test(key)) return key
  const isMissing = key === ''
  throw new Problem(
    isMissing ? 'idempotency_key_required' : 'idempotency_key_invalid',
    `Send an ${KEY_FIELD} of 1 to 255 visible ASCII characters, so that a repeated request is not performed twice.`,
  )
}

function fingerprintOf(operation: string, { id, fields }: SessionRequest): string {
  const sent = enteredOf(fields).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256')
    .update(JSON.stringify([operation, id, sent]))
    .digest('base64url')
}

function enteredOf(fields: Fields) {
  return fields.entries().filter(([name]) => name !== KEY_FIELD)
}

/**
 * Renders the idempotency key of a form that performs an action. A new form gets a key of its own. A form that is shown
 * again keeps its key, because the action may have been performed already, before the user logged in again.
 */
export function renderKeyField(entered: Fields): Html {
  return renderHidden(KEY_FIELD, entered.text(KEY_FIELD) || randomUUID())
}

/** Renders the key of a preview whose form is shown again. A new form has no key before its preview. */
export function renderKeptKey(entered: Fields): Html | undefined {
  return entered.has(KEY_FIELD) ? renderKeyField(entered) : undefined
}

function renderEntered(fields: Fields): Html {
  return html`${renderKeyField(fields)}${renderKeptFields(enteredOf(fields))}`
}

function fieldsOf(values: Readonly<Record<string, string | readonly string[]>>): Fields {
  return new Fields(
    false,
    new Map(
      Object.entries(values).map(([name, value]) => [
        name,
        typeof value === 'string' ? [value] : value,
      ]),
    ),
  )
}
