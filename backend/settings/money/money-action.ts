/**
 * Actions on money in Settings: a form, a preview, and the action itself. Each is a separate request, and works
 * without JavaScript. The preview contains an idempotency key, so that a double click performs the action only once.
 */
import type { Problem } from '../../../shared/contract/problem.ts'
import type { Reader, Transaction } from '../../database/tables.ts'
import type { Html } from '../../html/html.ts'
import type { Undo } from '../../sessions/flash.ts'
import { KEY_FIELD, performOnce, renderEntered } from '../forms/perform-once.ts'
import { type Labels, rejectIfReadOnly, withFieldLabels } from '../shell/faults.ts'
import { type Expected, Fields } from '../shell/fields.ts'
import type { FlashName } from '../shell/flash-words.ts'
import type { SessionPage, SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import type { Frame, Response } from '../shell/response.ts'
import { type Effects, previewEffects, representEffects, type Subject } from './effects.ts'

export interface MoneyAction<Form extends Subject, Input, Done> {
  readonly paths: MoneyActionPaths
  /** As in `OnceOptions`. */
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

function needsErrorPage({ code }: Problem): boolean {
  return ['not_found', 'account_read_only'].includes(code) || code.startsWith('idempotency_')
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
