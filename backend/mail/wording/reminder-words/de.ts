import type { ReminderWords } from './words.ts'

const ALREADY_PAID =
  'Haben Sie in den letzten Tagen gezahlt, danken wir Ihnen; bitte betrachten Sie diese E-Mail dann als gegenstandslos.'
const CONTACT_US =
  'Sind Sie mit der Forderung nicht einverstanden oder können Sie nicht alles auf einmal zahlen, antworten Sie uns bitte. Wir finden lieber gemeinsam eine Lösung.'

export const DE: ReminderWords = {
  title: {
    courtesy: (invoices) => `Bald fällig: ${invoices}`,
    friendly: (invoices) => `Freundliche Erinnerung: ${invoices}`,
    reminder: (invoices) => `Zahlungserinnerung: ${invoices}`,
    firm: (invoices) => `Bitte zahlen Sie jetzt: ${invoices}`,
    final: (invoices) => `Letzte Zahlungserinnerung: ${invoices}`,
  },
  invoice: (number) => `Rechnung ${number}`,
  invoices: (count) => `${count} Rechnungen`,
  greeting: (name) => `Guten Tag ${name},`,
  opening: {
    courtesy: [
      'ein Hinweis vorab: Die folgende Rechnung wird bald fällig.',
      'ein Hinweis vorab: Die folgenden Rechnungen werden bald fällig.',
    ],
    friendly: [
      'vielleicht ist es Ihnen entgangen: Die folgende Rechnung ist nach unseren Unterlagen noch nicht bezahlt.',
      'vielleicht ist es Ihnen entgangen: Die folgenden Rechnungen sind nach unseren Unterlagen noch nicht bezahlt.',
    ],
    reminder: [
      'wir hatten Ihnen bereits wegen der folgenden Rechnung geschrieben, die noch offen ist. Bitte veranlassen Sie die Zahlung.',
      'wir hatten Ihnen bereits wegen der folgenden Rechnungen geschrieben, die noch offen sind. Bitte veranlassen Sie die Zahlung.',
    ],
    firm: [
      'trotz unserer Erinnerungen ist die folgende Rechnung nicht bezahlt. Bitte zahlen Sie den vollen Betrag innerhalb von 7 Tagen.',
      'trotz unserer Erinnerungen sind die folgenden Rechnungen nicht bezahlt. Bitte zahlen Sie den vollen Betrag innerhalb von 7 Tagen.',
    ],
    final: [
      'dies ist unsere letzte Erinnerung. Die folgende Rechnung ist noch immer nicht bezahlt, obwohl wir Sie mehrfach daran erinnert haben. Bitte zahlen Sie den vollen Betrag innerhalb von 7 Tagen. Haben wir bis dahin weder Ihre Zahlung noch eine Nachricht von Ihnen, können wir weitere Schritte einleiten, um ihn einzuziehen.',
      'dies ist unsere letzte Erinnerung. Die folgenden Rechnungen sind noch immer nicht bezahlt, obwohl wir Sie mehrfach daran erinnert haben. Bitte zahlen Sie den vollen Betrag innerhalb von 7 Tagen. Haben wir bis dahin weder Ihre Zahlung noch eine Nachricht von Ihnen, können wir weitere Schritte einleiten, um ihn einzuziehen.',
    ],
  },
  closing: {
    courtesy:
      'Ist die Zahlung schon veranlasst, danken wir Ihnen; es ist dann nichts weiter zu tun.',
    friendly: ALREADY_PAID,
    reminder: ALREADY_PAID,
    firm: `${ALREADY_PAID} ${CONTACT_US}`,
    final: `${ALREADY_PAID} ${CONTACT_US}`,
  },
  tableHeadings: ['Rechnung', 'Offener Betrag'],
  tableCaption: 'Was offen ist',
  dueOn: (date) => `Fällig am ${date}`,
  relativeDueDate(daysPastDue) {
    if (daysPastDue === 0) return 'heute fällig'
    if (daysPastDue > 0)
      return daysPastDue === 1 ? '1 Tag überfällig' : `${daysPastDue} Tage überfällig`
    return daysPastDue === -1 ? 'in 1 Tag' : `in ${-daysPastDue} Tagen`
  },
  total: 'Offen insgesamt',
  onAccount: (received, remaining) =>
    `Wir haben ${received} von Ihnen erhalten, die noch keiner Rechnung zugeordnet sind. Wir berücksichtigen sie: Bitte zahlen Sie den Rest von ${remaining}.`,
  deducted: 'Bereits eingegangen',
  remaining: 'Noch zu zahlen',
  payOnline: 'Online bezahlen',
  howToPay: 'So zahlen Sie',
  howToPayIn: (currency) => `So zahlen Sie in ${currency}`,
  accountHolder: 'Kontoinhaber',
  accountNumber: 'Kontonummer',
  nationalBankCode: 'Bankleitzahl',
  bankName: 'Bank',
  reference: 'Verwendungszweck',
  questions: (replyTo) =>
    replyTo === null
      ? 'Fragen? Antworten Sie einfach auf diese E-Mail.'
      : `Fragen? Antworten Sie einfach auf diese E-Mail oder schreiben Sie an ${replyTo}.`,
  regards: 'Mit freundlichen Grüßen',
  onBehalf: (creditor) =>
    `Diese E-Mail wurde von Receivables im Auftrag von ${creditor} gesendet. Gläubiger bleibt ${creditor}: Bitte zahlen Sie dorthin, nicht an Receivables.`,
  unsubscribe: 'Erinnerungen per E-Mail abbestellen',
}
