import type { Language } from '../languages.ts'
import { DE } from './de.ts'
import { EN } from './en.ts'
import { FR } from './fr.ts'
import { NL } from './nl.ts'
import type { ReminderWords } from './words.ts'

export const REMINDER_WORDS: Readonly<Record<Language, ReminderWords>> = {
  en: EN,
  nl: NL,
  de: DE,
  fr: FR,
}
