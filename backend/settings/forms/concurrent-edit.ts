/** Combines the values of a form with those that were stored since the form was opened, e.g. by another person. */
import { enteredValuesProblem, type FieldError } from '../../validation/field-errors.ts'
import { truncate } from '../../validation/truncate.ts'
import { type Fields, INITIAL_VALUES } from '../shell/fields.ts'

/** The largest number of characters of a stored text that an error quotes. */
const QUOTED_MAX = 200

/**
 * Returns the texts to store. A unit is a list of texts that belong together, such as those of a bank account.
 *
 * - A request without the field `INITIAL_VALUES`, such as a JSON request, replaces all stored texts: a text that was
 *   not sent becomes empty.
 * - Otherwise, each unit that the form changes gets the texts of the form, and all other units keep their stored texts.
 * - In a unit that the form changes, each text that was changed meanwhile is a conflict, unless its new text is also
 *   that of the form. If there are conflicts, throws `validation_failed` with an error for each.
 *
 * After this error, the form is shown with the entered texts, and `INITIAL_VALUES` contains the texts that are now
 * stored. Sending the form again therefore replaces the stored texts.
 */
export function combineTexts<Name extends string>(
  fields: Fields,
  stored: Readonly<Record<Name, string>>,
  units: readonly (readonly Name[])[],
): Readonly<Record<Name, string>> {
  const names = units.flat()
  if (!fields.has(INITIAL_VALUES)) return recordOf(names, (name) => fields.text(name))
  // `fields.has` returns false for a text that was sent, but that is still the initial text.
  const isChangedInForm = (name: Name) => fields.has(name)
  const isChangedMeanwhile = (name: Name) => stored[name] !== fields.initialText(name)
  const conflicts = units
    .filter((unit) => unit.some(isChangedInForm) && unit.some(isChangedMeanwhile))
    .flat()
    .filter((name) => isChangedMeanwhile(name) && fields.textEvenIfUnchanged(name) !== stored[name])
  if (conflicts.length > 0) {
    throw enteredValuesProblem(conflicts.map((name) => conflictAt(name, stored[name])))
  }
  const kept = units.filter((unit) => !unit.some(isChangedInForm)).flat()
  return recordOf(names, (name) =>
    kept.includes(name) ? stored[name] : fields.textEvenIfUnchanged(name),
  )
}

/**
 * Returns the list to store. A request without the field `INITIAL_VALUES`, such as a JSON request, replaces the stored
 * list. Otherwise, the values that the form adds to its initial list, or removes from it, are added to the stored list
 * or removed from it. There are no conflicts.
 */
export function combineList(
  fields: Fields,
  name: string,
  stored: readonly string[],
): readonly string[] {
  if (!fields.has(INITIAL_VALUES)) return fields.list(name)
  // `fields.has` returns false for a list that was sent, but that is still the initial list.
  if (!fields.has(name)) return stored
  const sent = fields.list(name)
  const initial = fields.initialList(name)
  const removed = initial.filter((value) => !sent.includes(value))
  const added = sent.filter((value) => !initial.includes(value) && !stored.includes(value))
  return [...stored.filter((value) => !removed.includes(value)), ...added]
}

function conflictAt(name: string, stored: string): FieldError {
  const start = truncate(stored, QUOTED_MAX)
  const quoted = stored === '' ? 'empty' : `“${start}${start === stored ? '' : '…'}”`
  return {
    pointer: `/${name}`,
    code: 'edit_conflict',
    detail: `${name} was changed while you had this form open, and is now ${quoted}. To replace it, save again.`,
  }
}

function recordOf<Name extends string>(
  names: readonly Name[],
  textOf: (name: Name) => string,
): Readonly<Record<Name, string>> {
  // The cast is safe, because the record has a member for each name.
  return Object.fromEntries(names.map((name) => [name, textOf(name)])) as Record<Name, string>
}
