/** The wording of a reminder consists of the texts that an account may change. They contain variables in braces. */
import type { ReminderWordingRow } from '../../database/tables.ts'
import { type FieldError, fieldErrorsProblem } from '../../validation/field-errors.ts'
import { text } from '../../validation/fields.ts'
import { withFullStop } from '../../validation/full-stop.ts'
import { type Check, check, Rejection } from '../../validation/rejections.ts'
import type { Language } from './languages.ts'
import { REMINDER_WORDS } from './reminder-words/by-language.ts'
import type { Stage } from './reminder-words/words.ts'

export const WORDING_FIELDS = [
  'subject',
  'greeting',
  'opening',
  'opening_several',
  'closing',
  'sign_off',
] as const satisfies readonly (keyof ReminderWordingRow)[]

export type WordingField = (typeof WORDING_FIELDS)[number]

/**
 * The templates of a reminder. `opening` is for one invoice and `opening_several` for more. Blank lines separate
 * paragraphs. Only `closing` may be empty.
 */
export type Wording = Readonly<Record<WordingField, string>>

export const VARIABLES = [
  'customer',
  'invoices',
  'amount',
  'due_date',
  'overdue',
  'sender',
] as const

export type Variable = (typeof VARIABLES)[number]

/** Without these variables, a customer could not know what a mail is about. */
const REQUIRED_VARIABLES: Readonly<Partial<Record<WordingField, Variable>>> = {
  subject: 'invoices',
}

export function defaultWording(stage: Stage, language: Language): Wording {
  const words = REMINDER_WORDS[language]
  const [opening, opening_several] = words.opening[stage]
  return {
    subject: words.title[stage]('{invoices}'),
    greeting: words.greeting('{customer}'),
    opening,
    opening_several,
    closing: words.closing[stage],
    sign_off: words.regards,
  }
}

/**
 * Fills in the variables of a template. Braces in the values have no effect, so that e.g. a customer's name cannot
 * insert another value. After a value such as `Vries B.V.`, the full stop of the template is omitted.
 */
export function fillIn(template: string, values: Readonly<Record<Variable, string>>): string {
  return template.replace(/\{([^{}]*)\}(\.(?!\.))?/g, (whole, name, fullStop) => {
    const variable = VARIABLES.find((candidate) => candidate === name)
    if (variable === undefined) return whole
    return fullStop === undefined ? values[variable] : withFullStop(values[variable])
  })
}

const CHECKS: Readonly<Record<WordingField, Check<string>>> = {
  subject: text({ max: 150 }),
  greeting: text({ max: 200 }),
  opening: text({ max: 3000, multiline: true }),
  opening_several: text({ max: 3000, multiline: true }),
  closing: text({ max: 3000, min: 0, multiline: true }),
  sign_off: text({ max: 200, multiline: true }),
}

/** Throws `validation_failed` with an error for each invalid field. An absent field counts as empty. */
export function checkWording(input: Partial<Wording>): Wording {
  const errors: FieldError[] = []
  const checkField = (name: WordingField): string => {
    const value = trimLines(input[name] ?? '')
    const checked = check(CHECKS[name], value)
    const addError = (code: string, detail: string) =>
      errors.push({ pointer: `/${name}`, code, detail: `${name} ${detail}` })
    if (value === '' && name !== 'closing') addError('required', 'must not be empty')
    else if (checked instanceof Rejection) addError(checked.code, checked.detail)
    else {
      const detail = variableError(name, checked)
      if (detail !== undefined) addError('invalid_format', detail)
      return checked
    }
    return ''
  }
  const wording = {
    subject: checkField('subject'),
    greeting: checkField('greeting'),
    opening: checkField('opening'),
    opening_several: checkField('opening_several'),
    closing: checkField('closing'),
    sign_off: checkField('sign_off'),
  }
  if (errors.length > 0) throw fieldErrorsProblem(errors)
  return wording
}

/**
 * Removes spaces at the ends of lines, because mail programs hide the text after a line that consists of two
 * hyphens and a space. Also removes blank lines at both ends, and reduces several blank lines to one.
 */
export function trimLines(value: string): string {
  return value
    .split(/\r\n|\r|\n/)
    .map((line) => line.trimEnd())
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
}

function variableError(field: WordingField, template: string): string | undefined {
  const variableList = VARIABLES.map((name) => `{${name}}`).join(', ')
  for (const [whole, name] of template.matchAll(/\{([^{}]*)\}|[{}]/g)) {
    if (name === undefined) return `must have { and } only around a variable: ${variableList}`
    if (!VARIABLES.some((variable) => variable === name)) {
      return `must not contain ${whole}, which is not a variable. The variables are ${variableList}`
    }
  }
  const required = REQUIRED_VARIABLES[field]
  if (required === undefined || template.includes(`{${required}}`)) return undefined
  return `must contain {${required}}, so that the customer knows what the mail is about`
}
