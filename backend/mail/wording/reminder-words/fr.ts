import { withFullStop } from '../../../validation/full-stop.ts'
import type { ReminderWords } from './words.ts'

const ALREADY_PAID =
  'Si vous avez payé ces derniers jours, nous vous en remercions ; veuillez alors ne pas tenir compte de cet e-mail.'
const CONTACT_US =
  'Si vous contestez cette demande, ou si vous ne pouvez pas tout payer en une fois, répondez-nous : nous préférons trouver une solution avec vous.'

export const FR: ReminderWords = {
  title: {
    courtesy: (invoices) => `Bientôt à échéance : ${invoices}`,
    friendly: (invoices) => `Petit rappel : ${invoices}`,
    reminder: (invoices) => `Rappel : ${invoices}`,
    firm: (invoices) => `Merci de payer maintenant : ${invoices}`,
    final: (invoices) => `Dernier rappel : ${invoices}`,
  },
  invoice: (number) => `facture ${number}`,
  invoices: (count) => `${count} factures`,
  greeting: (name) => `Bonjour ${name},`,
  opening: {
    courtesy: [
      'Pour information : la facture ci-dessous arrive bientôt à échéance.',
      'Pour information : les factures ci-dessous arrivent bientôt à échéance.',
    ],
    friendly: [
      'Cela vous a peut-être échappé : sauf erreur de notre part, la facture ci-dessous n’est pas encore payée.',
      'Cela vous a peut-être échappé : sauf erreur de notre part, les factures ci-dessous ne sont pas encore payées.',
    ],
    reminder: [
      'Nous vous avons déjà écrit au sujet de la facture ci-dessous, qui reste due. Merci de procéder à son paiement.',
      'Nous vous avons déjà écrit au sujet des factures ci-dessous, qui restent dues. Merci de procéder à leur paiement.',
    ],
    firm: [
      'Malgré nos rappels, la facture ci-dessous n’est pas payée. Merci de régler la totalité du montant sous 7 jours.',
      'Malgré nos rappels, les factures ci-dessous ne sont pas payées. Merci de régler la totalité du montant sous 7 jours.',
    ],
    final: [
      'Ceci est notre dernier rappel. La facture ci-dessous reste impayée, bien que nous vous l’ayons rappelée plusieurs fois. Merci de régler la totalité du montant sous 7 jours. Sans paiement ni nouvelles de votre part d’ici là, nous pourrons entreprendre d’autres démarches pour la recouvrer.',
      'Ceci est notre dernier rappel. Les factures ci-dessous restent impayées, bien que nous vous les ayons rappelées plusieurs fois. Merci de régler la totalité du montant sous 7 jours. Sans paiement ni nouvelles de votre part d’ici là, nous pourrons entreprendre d’autres démarches pour les recouvrer.',
    ],
  },
  closing: {
    courtesy:
      'Si le paiement est déjà prévu, nous vous en remercions : vous n’avez rien d’autre à faire.',
    friendly: ALREADY_PAID,
    reminder: ALREADY_PAID,
    firm: `${ALREADY_PAID} ${CONTACT_US}`,
    final: `${ALREADY_PAID} ${CONTACT_US}`,
  },
  tableHeadings: ['Facture', 'Montant dû'],
  tableCaption: 'Ce qui est dû',
  dueOn: (date) => `À payer au plus tard le ${date}`,
  relativeDueDate(daysPastDue) {
    if (daysPastDue === 0) return 'échéance aujourd’hui'
    const count = Math.abs(daysPastDue) === 1 ? '1 jour' : `${Math.abs(daysPastDue)} jours`
    return daysPastDue > 0 ? `${count} de retard` : `dans ${count}`
  },
  total: 'Total dû',
  onAccount: (received, remaining) =>
    `Nous avons reçu de votre part ${received}, qui ne sont pas encore affectés à une facture. Nous en tenons compte : merci de régler le solde de ${remaining}.`,
  deducted: 'Déjà reçu',
  remaining: 'Reste à payer',
  payOnline: 'Payer en ligne',
  howToPay: 'Comment payer',
  howToPayIn: (currency) => `Comment payer en ${currency}`,
  accountHolder: 'Titulaire du compte',
  accountNumber: 'Numéro de compte',
  nationalBankCode: 'Code banque',
  bankName: 'Banque',
  reference: 'Référence',
  questions: (replyTo) =>
    replyTo === null
      ? 'Une question ? Répondez simplement à cet e-mail.'
      : `Une question ? Répondez simplement à cet e-mail, ou écrivez à ${replyTo}.`,
  regards: 'Cordialement,',
  onBehalf: (creditor) =>
    `Cet e-mail a été envoyé par Receivables pour le compte de ${withFullStop(creditor)} Le créancier reste ${creditor} : c’est à lui qu’il faut payer, et non à Receivables.`,
  unsubscribe: 'Ne plus recevoir de rappels par e-mail',
}
