import { withFullStop } from '../../../validation/full-stop.ts'
import type { ReminderWords } from './words.ts'

const ALREADY_PAID =
  'Heeft u de afgelopen dagen betaald? Dan danken wij u en kunt u deze e-mail als niet verzonden beschouwen.'
const CONTACT_US =
  'Bent u het er niet mee eens, of kunt u niet alles in één keer betalen? Laat het ons dan weten door te antwoorden. Wij horen liever van u.'

export const NL: ReminderWords = {
  title: {
    courtesy: (invoices) => `Binnenkort te betalen: ${invoices}`,
    friendly: (invoices) => `Een vriendelijke herinnering: ${invoices}`,
    reminder: (invoices) => `Herinnering: ${invoices}`,
    firm: (invoices) => `Verzoek om nu te betalen: ${invoices}`,
    final: (invoices) => `Laatste herinnering: ${invoices}`,
  },
  invoice: (number) => `factuur ${number}`,
  invoices: (count) => `${count} facturen`,
  greeting: (name) => `Geachte ${name},`,
  opening: {
    courtesy: [
      'Een bericht vooraf: de onderstaande factuur moet binnenkort zijn betaald.',
      'Een bericht vooraf: de onderstaande facturen moeten binnenkort zijn betaald.',
    ],
    friendly: [
      'Het is u misschien ontgaan: de onderstaande factuur is volgens onze gegevens nog niet betaald.',
      'Het is u misschien ontgaan: de onderstaande facturen zijn volgens onze gegevens nog niet betaald.',
    ],
    reminder: [
      'Wij schreven u al eerder over de onderstaande factuur, die nog openstaat. Wij verzoeken u deze te betalen.',
      'Wij schreven u al eerder over de onderstaande facturen, die nog openstaan. Wij verzoeken u deze te betalen.',
    ],
    firm: [
      'Ondanks onze herinneringen is de onderstaande factuur niet betaald. Wij verzoeken u het volledige bedrag binnen 7 dagen te betalen.',
      'Ondanks onze herinneringen zijn de onderstaande facturen niet betaald. Wij verzoeken u het volledige bedrag binnen 7 dagen te betalen.',
    ],
    final: [
      'Dit is onze laatste herinnering. De onderstaande factuur is nog steeds niet betaald, hoewel wij u er meermaals aan herinnerden. Wij verzoeken u het volledige bedrag binnen 7 dagen te betalen. Hebben wij dan geen betaling en geen bericht van u ontvangen, dan kunnen wij verdere stappen nemen om het te innen.',
      'Dit is onze laatste herinnering. De onderstaande facturen zijn nog steeds niet betaald, hoewel wij u er meermaals aan herinnerden. Wij verzoeken u het volledige bedrag binnen 7 dagen te betalen. Hebben wij dan geen betaling en geen bericht van u ontvangen, dan kunnen wij verdere stappen nemen om het te innen.',
    ],
  },
  closing: {
    courtesy: 'Is de betaling al geregeld? Dan danken wij u en hoeft u niets meer te doen.',
    friendly: ALREADY_PAID,
    reminder: ALREADY_PAID,
    firm: `${ALREADY_PAID} ${CONTACT_US}`,
    final: `${ALREADY_PAID} ${CONTACT_US}`,
  },
  tableHeadings: ['Factuur', 'Te betalen'],
  tableCaption: 'Wat openstaat',
  dueOn: (date) => `Te betalen uiterlijk ${date}`,
  relativeDueDate(daysPastDue) {
    if (daysPastDue === 0) return 'vandaag te betalen'
    const count = Math.abs(daysPastDue) === 1 ? '1 dag' : `${Math.abs(daysPastDue)} dagen`
    return daysPastDue > 0 ? `${count} te laat` : `over ${count}`
  },
  total: 'Totaal te betalen',
  onAccount: (received, remaining) =>
    `We hebben ${received} van u ontvangen die nog niet bij een factuur hoort. Daar houden we rekening mee: betaal alstublieft de resterende ${remaining}.`,
  deducted: 'Al ontvangen',
  remaining: 'Nog te betalen',
  payOnline: 'Online betalen',
  howToPay: 'Hoe u betaalt',
  howToPayIn: (currency) => `Hoe u in ${currency} betaalt`,
  accountHolder: 'Ten name van',
  accountNumber: 'Rekeningnummer',
  nationalBankCode: 'Bankcode',
  bankName: 'Bank',
  reference: 'Onder vermelding van',
  questions: (replyTo) =>
    replyTo === null
      ? 'Vragen? Beantwoord dan gewoon deze e-mail.'
      : `Vragen? Beantwoord dan gewoon deze e-mail, of schrijf naar ${replyTo}.`,
  regards: 'Met vriendelijke groet,',
  onBehalf: (creditor) =>
    `Deze e-mail is door Receivables verstuurd namens ${withFullStop(creditor)} ${creditor} blijft de schuldeiser: betaal aan hen, niet aan Receivables.`,
  unsubscribe: 'Herinneringen per e-mail stoppen',
}
