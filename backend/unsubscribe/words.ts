/** The texts of the unsubscribe page, in the languages of reminders. The caller passes `address` already masked. */
import type { Language } from '../mail/wording/languages.ts'

export interface UnsubscribeWords {
  readonly confirmTitle: string
  explain(creditor: string, address: string): string
  readonly stillOwedNote: string
  readonly stopLabel: string
  readonly stoppedTitle: string
  explainStopped(creditor: string, address: string): string
  readonly resumeLabel: string
  readonly resumedTitle: string
  explainResumed(creditor: string, address: string): string
  /** The title of the page for a link that is incomplete or otherwise invalid. */
  readonly brokenLinkTitle: string
  readonly explainBrokenLink: string
}

export const UNSUBSCRIBE_WORDS: Readonly<Record<Language, UnsubscribeWords>> = {
  en: {
    confirmTitle: 'Stop reminders by e-mail?',
    explain: (creditor, address) =>
      `${creditor} will send no more payment reminders to ${address}.`,
    stillOwedNote: 'You still owe any unpaid amounts, and you may be contacted in other ways.',
    stopLabel: 'Stop reminders',
    stoppedTitle: 'Reminders are stopped',
    explainStopped: (creditor, address) =>
      `${creditor} sends no more payment reminders to ${address}.`,
    resumeLabel: 'Send me reminders again',
    resumedTitle: 'Reminders are active again',
    explainResumed: (creditor, address) =>
      `${creditor} may send payment reminders to ${address} again.`,
    brokenLinkTitle: 'This link does not work',
    explainBrokenLink:
      'It may be incomplete. Open it from the e-mail, or copy the whole link. If it still does not work, reply to the e-mail.',
  },
  nl: {
    confirmTitle: 'Herinneringen per e-mail stoppen?',
    explain: (creditor, address) =>
      `${creditor} stuurt dan geen betalingsherinneringen meer naar ${address}.`,
    stillOwedNote:
      'Wat openstaat blijft verschuldigd, en u kunt op een andere manier worden benaderd.',
    stopLabel: 'Herinneringen stoppen',
    stoppedTitle: 'De herinneringen zijn gestopt',
    explainStopped: (creditor, address) =>
      `${creditor} stuurt geen betalingsherinneringen meer naar ${address}.`,
    resumeLabel: 'Stuur mij weer herinneringen',
    resumedTitle: 'De herinneringen staan weer aan',
    explainResumed: (creditor, address) =>
      `${creditor} mag weer betalingsherinneringen sturen naar ${address}.`,
    brokenLinkTitle: 'Deze link werkt niet',
    explainBrokenLink:
      'Misschien is hij niet compleet. Open hem vanuit de e-mail, of kopieer hem helemaal. Werkt hij dan nog niet, beantwoord dan de e-mail.',
  },
  de: {
    confirmTitle: 'Erinnerungen per E-Mail abbestellen?',
    explain: (creditor, address) =>
      `${creditor} sendet dann keine Zahlungserinnerungen mehr an ${address}.`,
    stillOwedNote:
      'Offene Beträge bleiben geschuldet, und Sie können auf anderem Weg angesprochen werden.',
    stopLabel: 'Erinnerungen abbestellen',
    stoppedTitle: 'Die Erinnerungen sind abbestellt',
    explainStopped: (creditor, address) =>
      `${creditor} sendet keine Zahlungserinnerungen mehr an ${address}.`,
    resumeLabel: 'Wieder Erinnerungen erhalten',
    resumedTitle: 'Sie erhalten wieder Erinnerungen',
    explainResumed: (creditor, address) =>
      `${creditor} darf wieder Zahlungserinnerungen an ${address} senden.`,
    brokenLinkTitle: 'Dieser Link funktioniert nicht',
    explainBrokenLink:
      'Vielleicht ist er unvollständig. Öffnen Sie ihn aus der E-Mail, oder kopieren Sie ihn ganz. Hilft das nicht, antworten Sie bitte auf die E-Mail.',
  },
  fr: {
    confirmTitle: 'Ne plus recevoir de rappels par e-mail ?',
    explain: (creditor, address) =>
      `${creditor} n’enverra plus de rappels de paiement à ${address}.`,
    stillOwedNote: 'Les sommes dues le restent, et vous pouvez être contacté par d’autres moyens.',
    stopLabel: 'Arrêter les rappels',
    stoppedTitle: 'Les rappels sont arrêtés',
    explainStopped: (creditor, address) =>
      `${creditor} n’envoie plus de rappels de paiement à ${address}.`,
    resumeLabel: 'Recevoir à nouveau les rappels',
    resumedTitle: 'Les rappels sont rétablis',
    explainResumed: (creditor, address) =>
      `${creditor} peut à nouveau envoyer des rappels de paiement à ${address}.`,
    brokenLinkTitle: 'Ce lien ne fonctionne pas',
    explainBrokenLink:
      'Il est peut-être incomplet. Ouvrez-le depuis l’e-mail, ou copiez-le en entier. S’il ne fonctionne toujours pas, répondez à l’e-mail.',
  },
}
