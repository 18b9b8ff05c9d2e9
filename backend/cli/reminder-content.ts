import { readFile } from 'node:fs/promises'
import { getAccount } from '../accounts/accounts.ts'
import { findLogoProperties } from '../accounts/logo.ts'
import {
  PAYMENT_FIELDS,
  type PaymentDetails,
  readPaymentDetails,
} from '../accounts/payment-details.ts'
import { senderNameOf } from '../accounts/sender.ts'
import type { Reader } from '../database/database.ts'
import { findWording, type WordingKey } from '../mail/wording/account-wordings.ts'
import { LANGUAGES } from '../mail/wording/languages.ts'
import { defaultWording, WORDING_FIELDS, type Wording } from '../mail/wording/wording.ts'
import { STAGES } from '../reminders/planning/ladder.ts'
import {
  changeLogo,
  changePaymentDetails,
  changeSenderName,
  changeWording,
} from '../reminders/reminder-content.ts'
import { ACCOUNT, type Command, defineCommand, UsageError } from './command.ts'

export const reminderContentCommands: readonly Command[] = [
  defineCommand({
    name: 'reminders sender',
    summary: 'Show or change the sender’s name and the logo of an account’s reminders.',
    arguments: [],
    options: {
      account: ACCOUNT,
      name: {
        type: 'string',
        value: 'N',
        description: 'The sender’s name. The value none restores the account’s name.',
      },
      logo: {
        type: 'string',
        value: 'FILE',
        description: 'The logo, a PNG or JPEG file. The value none removes the logo.',
      },
    },
    async run({ account: id, name, logo }, context) {
      const database = await context.database()
      if (name === '')
        throw new UsageError('--name is empty: --name none restores the account’s name')
      const logoContent = logo === undefined || logo === 'none' ? null : await readFile(logo)
      await getAccount(database.read, id)
      await context.performAction(async (tx, actionContext) => {
        if (name !== undefined)
          await changeSenderName(tx, id, name === 'none' ? null : name, actionContext)
        if (logo !== undefined) await changeLogo(tx, id, logoContent, actionContext)
      })
      return showSender(database.read, id)
    },
  }),

  defineCommand({
    name: 'reminders wording',
    summary:
      'Show or change the wording of a reminder stage in a language. Edit the output of --json to make a file for --from.',
    arguments: [],
    options: {
      account: ACCOUNT,
      stage: {
        type: 'string',
        required: true,
        value: 'S',
        description: `The stage: ${STAGES.join(', ')}.`,
      },
      language: {
        type: 'string',
        required: true,
        value: 'L',
        description: `The language: ${LANGUAGES.join(', ')}.`,
      },
      from: {
        type: 'string',
        value: 'FILE',
        description: `A file with a JSON object that has any of the members ${WORDING_FIELDS.join(', ')}. The other texts do not change.`,
      },
      reset: { type: 'boolean', description: 'Restore the default wording.' },
    },
    async run({ account: id, stage, language, from, reset }, context) {
      if (reset && from !== undefined) throw new UsageError('Use either --from or --reset')
      const key = parseWordingKey(stage, language)
      const change = from === undefined ? {} : await readWording(from)
      const database = await context.database()
      // Throws if the account does not exist.
      await getAccount(database.read, id)
      if (reset || from !== undefined) {
        await context.performAction(async (tx, actionContext) => {
          const current = await findWording(tx, id, key)
          const complete = { ...(current ?? defaultWording(key.stage, key.language)), ...change }
          await changeWording(tx, id, key, reset ? null : complete, actionContext)
        })
      }
      return showWording(database.read, id, key)
    },
  }),

  defineCommand({
    name: 'reminders payment',
    summary:
      'Show, replace or remove the payment details in an account’s reminders, per currency. If neither new details nor --remove is given, the payment details are only shown. New details replace all earlier details of the currency.',
    arguments: [],
    options: {
      account: ACCOUNT,
      currency: {
        type: 'string',
        value: 'C',
        description: 'The ISO 4217 code of the currency. It is required for a change.',
      },
      holder: { type: 'string', value: 'N', description: 'The account holder.' },
      number: { type: 'string', value: 'IBAN', description: 'The IBAN or account number.' },
      'bank-code': { type: 'string', value: 'BIC', description: 'The BIC or bank code.' },
      bank: { type: 'string', value: 'B', description: 'The name of the bank.' },
      link: { type: 'string', value: 'URL', description: 'A payment link.' },
      remove: { type: 'boolean', description: 'Remove the payment details of the currency.' },
    },
    async run({ account: id, currency, remove, ...details }, context) {
      const input = {
        ...(details.holder !== undefined && { account_holder: details.holder }),
        ...(details.number !== undefined && { account_number: details.number }),
        ...(details['bank-code'] !== undefined && { bank_code: details['bank-code'] }),
        ...(details.bank !== undefined && { bank_name: details.bank }),
        ...(details.link !== undefined && { payment_link: details.link }),
      }
      const isChange = Object.keys(input).length > 0
      if ((isChange || remove) && currency === undefined) {
        throw new UsageError('A change requires --currency')
      }
      if (isChange && remove) throw new UsageError('Use either --remove or new details')
      const database = await context.database()
      // Throws if the account does not exist.
      await getAccount(database.read, id)
      if (currency !== undefined && (isChange || remove)) {
        await context.performAction((tx, actionContext) =>
          changePaymentDetails(
            tx,
            id,
            // A removal finds only a code that is spelled as it is stored: in upper case. For new details,
            // `changePaymentDetails` validates the code and converts it to upper case.
            remove ? currency.toUpperCase() : currency,
            remove ? null : input,
            actionContext,
          ),
        )
      }
      const all = await readPaymentDetails(database.read, id)
      const shown = all.filter(
        (entry) => currency === undefined || entry.currency === currency.toUpperCase(),
      )
      return { json: shown, text: shown.map(renderPaymentDetails).join('\n\n') || 'None.' }
    },
  }),
]

async function showSender(reader: Reader, id: string) {
  const account = await getAccount(reader, id)
  const logo = await findLogoProperties(reader, id, account.logo_id)
  const logoText = logo === undefined ? 'none' : `${logo.width} × ${logo.height} pixels`
  const nameNote = account.sender_name === null ? ' (the account’s name)' : ''
  return {
    json: {
      name: senderNameOf(account),
      is_default: account.sender_name === null,
      logo: logo ?? null,
    },
    text: `name: ${senderNameOf(account)}${nameNote}\nlogo: ${logoText}`,
  }
}

async function showWording(reader: Reader, id: string, key: WordingKey) {
  const own = await findWording(reader, id, key)
  const wording = own ?? defaultWording(key.stage, key.language)
  const parts = WORDING_FIELDS.map((name) => `${name}:\n${wording[name].replace(/^/gm, '  ')}`)
  return {
    json: wording,
    text: [
      own === undefined ? 'The default wording:' : 'The account’s own wording:',
      ...parts,
    ].join('\n\n'),
  }
}

function parseWordingKey(stageName: string, languageName: string): WordingKey {
  const stage = STAGES.find((candidate) => candidate === stageName)
  if (stage === undefined) throw new UsageError(`--stage must be one of ${STAGES.join(', ')}`)
  const language = LANGUAGES.find((candidate) => candidate === languageName)
  if (language === undefined)
    throw new UsageError(`--language must be one of ${LANGUAGES.join(', ')}`)
  return { stage, language }
}

async function readWording(path: string): Promise<Partial<Wording>> {
  const content = parseJson(await readFile(path, 'utf8'))
  const entries = typeof content === 'object' && content !== null ? Object.entries(content) : []
  const isKnown = entries.every(
    ([name, value]) => WORDING_FIELDS.some((field) => field === name) && typeof value === 'string',
  )
  if (entries.length > 0 && isKnown) return Object.fromEntries(entries)
  throw new UsageError(
    `${path} must contain a JSON object with one or more of these members, each a text: ${WORDING_FIELDS.join(', ')}`,
  )
}

/** Returns undefined for malformed JSON. A byte order mark, which editors on Windows may write, is ignored. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ''))
  } catch {
    return undefined
  }
}

function renderPaymentDetails(details: PaymentDetails): string {
  const lines = PAYMENT_FIELDS.flatMap((name) =>
    details[name] === null ? [] : [`  ${name}: ${details[name]}`],
  )
  return [details.currency, ...lines].join('\n')
}
