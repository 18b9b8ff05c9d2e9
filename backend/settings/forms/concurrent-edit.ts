/** Combines the texts of a form with those that another person has stored since the form was opened. */
import { enteredValuesProblem, type FieldError } from '../../validation/field-errors.ts'
import { type Fields, SHOWN } from '../shell/fields.ts'

/** The number of characters of a stored text that an error quotes at most. */
const QUOTED_MAX = 200

/**
 * Returns the texts to store. A unit is a list of texts that belong together, such as those of a bank account: the texts
 * of a unit that the form does not change keep their stored values. Without the field `SHOWN`, as in JSON, all texts are
 * those that were sent. Throws `validation_failed` if both persons have changed a unit: the form that is then shown
 * again contains the stored texts as its first texts, so that sending it again replaces them.
 */
export function combineTexts<Name extends string>(
  fields: Fields,
  stored: Readonly<Record<Name, string>>,
  units: readonly (readonly Name[])[],
): Readonly<Record<Name, string>> {
  const names = units.flat()
  if (!fields.has(SHOWN)) return record(names, (name) => fields.text(name))
  // `has` returns false for a text that the form sends, but that is still its first text.
  const isChangedInForm = (name: Name) => fields.has(name)
  const isChangedMeanwhile = (name: Name) => stored[name] !== fields.firstText(name)
  const conflicts = units
    .filter((unit) => unit.some(isChangedInForm) && unit.some(isChangedMeanwhile))
    .flatMap((unit) => unit.filter((name) => fields.formText(name) !== stored[name]))
  if (conflicts.length > 0) {
    throw enteredValuesProblem(conflicts.map((name) => conflictAt(name, stored[name])))
  }
  const kept = units.filter((unit) => !unit.some(isChangedInForm)).flat()
  return record(names, (name) => (kept.includes(name) ? stored[name] : fields.formText(name)))
}

function conflictAt(name: string, stored: string): FieldError {
  const start = stored.slice(0, QUOTED_MAX)
  const now = stored === '' ? 'empty' : `“${start}${start === stored ? '' : '…'}”`
  return {
    pointer: `/${name}`,
    code: 'edit_conflict',
    detail: `${name} was changed by another person while you had this form open, and is now ${now}. To replace it, save again.`,
  }
}

function record<Name extends string>(
  names: readonly Name[],
  textOf: (name: Name) => string,
): Readonly<Record<Name, string>> {
  // The cast is safe, because the record has a member for each name.
  return Object.fromEntries(names.map((name) => [name, textOf(name)])) as Record<Name, string>
}
