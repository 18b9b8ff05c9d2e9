/**
 * Actions on money in Settings: a form, a preview, and the action itself. Each is a separate request, and works without
 * JavaScript.
 */
import type { Problem } from '../../../shared/contract/problem.ts'
import type { Reader, Transaction } from '../../database/tables.ts'
import type { Html } from '../../html/html.ts'
import type { Undo } from '../../sessions/flash.ts'
import { IDEMPOTENCY_KEY_FIELD, performOnce, renderEntered } from '../forms/perform-once.ts'
import { type Labels, rejectIfReadOnly, withFieldLabels } from '../shell/faults.ts'
import { type ExpectedFields, type Fields, fieldsOf } from '../shell/fields.ts'
import type { FlashName } from '../shell/flash-words.ts'
import type { SessionPage, SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import type { Frame, PageResponse } from '../shell/response.ts'
import { type Effects, type PreviewContext, previewEffects, representEffects } from './effects.ts'

/**
 * `Loaded` is the record that the action concerns, with the other data that the form and the preview show. Each request
 * loads the data again. `Input` is the parsed form, and `Done` is the result of the action.
 */
export interface MoneyAction<Loaded extends PreviewContext, Input, Done> {
  readonly paths: MoneyActionPaths
  /** The name of the action, which is stored with the idempotency key, so it must never change. */
  readonly operation: string
  /** The message of the error page that Members receive. */
  readonly adminsOnlyMessage: string
  readonly flash: FlashName
  /** Returns the request that undoes the action, if there is one. */
  readonly undo?: (loaded: Loaded, done: Done, input: Input) => Undo | undefined
  /** Whether the action creates a record, so that the response has the status 201. */
  readonly isCreation?: boolean
  readonly expected: ExpectedFields
  /** Throws `not_found`, and problems of the record's state such as `payment_already_reversed`. */
  load(reader: Reader, request: SessionRequest): Promise<Loaded>
  defaults(loaded: Loaded): Readonly<Record<string, string | readonly string[]>>
  renderForm(frame: Frame, loaded: Loaded, entered: Fields, problem: Problem | undefined): Html
  /** Throws `validation_failed`. */
  parse(loaded: Loaded, entered: Fields): Input
  perform(tx: Transaction, request: SessionRequest, loaded: Loaded, input: Input): Promise<Done>
  renderPreview(frame: Frame, preview: Preview<Loaded, Input>): Html
  /** The JSON of the changed record, as GET returns it. */
  represent(loaded: Loaded, done: Done): { readonly id: string }
  /** The path of the page to show afterwards. `id` is the id that `represent` returns. */
  location(id: string): string
}

export interface MoneyActionPaths {
  readonly form: string
  readonly preview: string
  /** The path of the preview's button Change, which shows the form again with the entered values. */
  readonly edit: string
  readonly action: string
}

export interface Preview<Loaded, Input> {
  readonly loaded: Loaded
  readonly input: Input
  readonly effects: Effects
  /** The entered values and an idempotency key, as hidden fields. */
  readonly hidden: Html
}

/**
 * The labels that replace field names in the errors of the API's validation. A person cannot cause such errors in the
 * other fields: the form offers only valid values, or has error texts of its own.
 */
const LABELS: Labels = {
  received_on: 'Received on',
  reference: 'Reference',
  currency: 'Currency',
}

export function moneyActionPages<Loaded extends PreviewContext, Input, Done>(
  action: MoneyAction<Loaded, Input, Done>,
): readonly SessionPage[] {
  const { adminsOnlyMessage, paths } = action
  const expected = {
    ...action.expected,
    texts: [...(action.expected.texts ?? []), IDEMPOTENCY_KEY_FIELD],
  }
  const rerender: NonNullable<SessionPage['rerender']> = async (request, problem, { database }) => {
    if (needsErrorPage(problem)) return undefined
    const loaded = await action.load(database.read, request)
    const labeled = withFieldLabels(problem, LABELS)
    return (frame) => action.renderForm(frame, loaded, request.fields, labeled)
  }
  return [
    {
      method: 'GET',
      path: paths.form,
      adminsOnlyMessage,
      async handle(request, { database }) {
        rejectIfReadOnly(request.session)
        const loaded = await action.load(database.read, request)
        const entered = fieldsOf(action.defaults(loaded))
        return { page: (frame) => action.renderForm(frame, loaded, entered, undefined) }
      },
    },
    {
      method: 'POST',
      path: paths.edit,
      adminsOnlyMessage,
      expected,
      rerender,
      async handle(request, { database }) {
        const loaded = await action.load(database.read, request)
        return { page: (frame) => action.renderForm(frame, loaded, request.fields, undefined) }
      },
    },
    {
      method: 'POST',
      path: paths.preview,
      adminsOnlyMessage,
      expected,
      rerender,
      async handle(request, { database }) {
        rejectIfReadOnly(request.session)
        const loaded = await action.load(database.read, request)
        const input = action.parse(loaded, request.fields)
        // `previewEffects` rolls back everything that `perform` writes.
        const effects = await previewEffects(database, loaded, (tx) =>
          action.perform(tx, request, loaded, input),
        )
        const hidden = renderEntered(request.fields)
        return {
          json: representEffects(effects),
          page: (frame) => action.renderPreview(frame, { loaded, input, effects, hidden }),
        }
      },
    },
    {
      method: 'POST',
      path: paths.action,
      adminsOnlyMessage,
      expected,
      rerender,
      handle: (request, deps) => performMoneyAction(action, request, deps),
    },
  ]
}

async function performMoneyAction<Loaded extends PreviewContext, Input, Done>(
  action: MoneyAction<Loaded, Input, Done>,
  request: SessionRequest,
  deps: SettingsDeps,
): Promise<PageResponse> {
  let undo: Undo | undefined
  const options = {
    operation: action.operation,
    flash: action.flash,
    location: action.location,
    undo: () => undo,
  }
  const response = await performOnce(request, deps, options, async (tx) => {
    const loaded = await action.load(tx, request)
    const input = action.parse(loaded, request.fields)
    const done = await action.perform(tx, request, loaded, input)
    undo = action.undo?.(loaded, done, input)
    return action.represent(loaded, done)
  })
  return action.isCreation ? { status: 201, ...response } : response
}

/** Whether the user cannot solve the problem by correcting the form. */
function needsErrorPage({ code }: Problem): boolean {
  return ['not_found', 'account_read_only'].includes(code) || code.startsWith('idempotency_')
}
