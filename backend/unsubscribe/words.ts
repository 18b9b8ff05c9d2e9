/** The texts of the unsubscribe page, in the languages of reminders. The caller passes `address` already masked. */
import type { Language } from '../mail/wording/languages.ts'

export interface UnsubscribeWords {
  /** The title of the page on which the recipient confirms. */
  readonly request: string
  explain(creditor: string, address: string): string
  readonly stillOwed: string
  /** The label of the button that unsubscribes. */
  readonly stop: string
  /** The title of the page after unsubscribing. */
  readonly stopped: string
  explainStopped(creditor: string, address: string): string
  /** The label of the button that subscribes again. */
  readonly resume: string
  /** The title of the page after subscribing again. */
  readonly resumed: string
  explainResumed(creditor: string, address: string): string
  /** The title of the page for an incomplete link. */
  readonly broken: string
  readonly explainBroken: string
}

export const UNSUBSCRIBE_WORDS: Readonly<Record<Language, UnsubscribeWords>> = {
  en: {
    request: 'Stop reminders by e-mail?',
    explain: (creditor, address) =>
      `${creditor} will send no more payment reminders to ${address}.`,
    stillOwed: 'You still owe any unpaid amounts, and you may be contacted in other ways.',
    stop: 'Stop reminders',
    stopped: 'Reminders are stopped',
    explainStopped: (creditor, address) =>
      `${creditor} sends no more payment reminders to ${address}.`,
    resume: 'Send me reminders again',
    resumed: 'Reminders are active again',
    explainResumed: (creditor, address) =>
      `${creditor} may send payment reminders to ${address} again.`,
    broken: 'This link does not work',
    explainBroken: 'The link is incomplete. Open it from the e-mail, or copy the whole link.',
  },
  nl: {
    request: 'Herinneringen per e-mail stoppen?',
    explain: (creditor, address) =>
      `${creditor} stuurt dan geen betalingsherinneringen meer naar ${address}.`,
    stillOwed: 'Wat openstaat blijft verschuldigd, en u kunt op een andere manier worden benaderd.',
    stop: 'Herinneringen stoppen',
    stopped: 'De herinneringen zijn gestopt',
    explainStopped: (creditor, address) =>
      `${creditor} stuurt geen betalingsherinneringen meer naar ${address}.`,
    resume: 'Stuur mij weer herinneringen',
    resumed: 'De herinneringen staan weer aan',
    explainResumed: (creditor, address) =>
      `${creditor} mag weer betalingsherinneringen sturen naar ${address}.`,
    broken: 'Deze link werkt niet',
    explainBroken: 'De link is niet compleet. Open hem vanuit de e-mail, of kopieer hem helemaal.',
  },
  de: {
    request: 'Erinnerungen per E-Mail abbestellen?',
    explain: (creditor, address) =>
      `${creditor} sendet dann keine Zahlungserinnerungen mehr an ${address}.`,
    stillOwed:
      'Offene Beträge bleiben geschuldet, und Sie können auf anderem Weg angesprochen werden.',
    stop: 'Erinnerungen abbestellen',
    stopped: 'Die Erinnerungen sind abbestellt',
    explainStopped: (creditor, address) =>
      `${creditor} sendet keine Zahlungserinnerungen mehr an ${address}.`,
    resume: 'Wieder Erinnerungen erhalten',
    resumed: 'Sie erhalten wieder Erinnerungen',
    explainResumed: (creditor, address) =>
      `${creditor} darf wieder Zahlungserinnerungen an ${address} senden.`,
    broken: 'Dieser Link funktioniert nicht',
    explainBroken:
      'Er ist unvollständig. Öffnen Sie ihn aus der E-Mail, oder kopieren Sie ihn ganz.',
  },
  fr: {
    request: 'Ne plus recevoir de rappels par e-mail ?',
    explain: (creditor, address) =>
      `${creditor} n’enverra plus de rappels de paiement à ${address}.`,
    stillOwed: 'Les sommes dues le restent, et vous pouvez être contacté par d’autres moyens.',
    stop: 'Arrêter les rappels',
    stopped: 'Les rappels sont arrêtés',
    explainStopped: (creditor, address) =>
      `${creditor} n’envoie plus de rappels de paiement à ${address}.`,
    resume: 'Recevoir à nouveau les rappels',
    resumed: 'Les rappels sont rétablis',
    explainResumed: (creditor, address) =>
      `${creditor} peut à nouveau envoyer des rappels de paiement à ${address}.`,
    broken: 'Ce lien ne fonctionne pas',
    explainBroken: 'Il est incomplet. Ouvrez-le depuis l’e-mail, ou copiez-le en entier.',
  },
}
