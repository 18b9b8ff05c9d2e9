/**
 * A small sample ledger. Its dates are relative to today, so that the demo account looks in use on any day. The
 * addresses are in reserved domains.
 */
import type { MessageRow } from '../database/tables.ts'

export interface SampleInvoice {
  readonly issuedDaysAgo: number
  readonly termsDays: number
  readonly currency: string
  /** In minor units. */
  readonly amount: number
  /** `unitAmount` (of one unit) and `tax` (of the whole line) are in minor units. */
  readonly lines?: readonly {
    description: string
    quantity: number
    unitAmount: number
    tax: number
  }[]
  readonly draft?: true
  /** How many days ago a payment for the invoice was received; absent if none was. */
  readonly paidDaysAgo?: number
  /** The amount of the payment, in minor units; by default, the amount of the invoice. */
  readonly paidAmount?: number
  readonly messages?: readonly SampleMessage[]
}

export interface SampleMessage {
  readonly daysAgo: number
  readonly stage: NonNullable<MessageRow['stage']>
  readonly status: 'delivered' | 'suppressed' | 'bounced' | 'awaiting_approval'
}

export interface SampleDebtor {
  readonly externalId: string
  readonly name: string
  readonly email: string | null
  readonly country: string
  readonly city: string
  /** Null if the payment terms of the account apply. */
  readonly termsDays: number | null
  readonly invoices: readonly SampleInvoice[]
}

export const SAMPLE_LEDGER: readonly SampleDebtor[] = [
  {
    externalId: 'C-1001',
    name: 'Globex Corporation',
    email: 'ap@globex.example',
    country: 'NL',
    city: 'Rotterdam',
    termsDays: 14,
    invoices: [
      {
        issuedDaysAgo: 5,
        termsDays: 14,
        currency: 'EUR',
        amount: 2_480_50,
        lines: [
          { description: 'Pump overhaul', quantity: 1, unitAmount: 1_850_00, tax: 388_50 },
          { description: 'Seal kit', quantity: 2, unitAmount: 100_00, tax: 42_00 },
        ],
      },
      { issuedDaysAgo: 60, termsDays: 14, currency: 'EUR', amount: 990_00, paidDaysAgo: 40 },
    ],
  },
  {
    externalId: 'C-1002',
    name: 'Initech GmbH',
    email: 'buchhaltung@initech.example',
    country: 'DE',
    city: 'Köln',
    termsDays: 30,
    invoices: [
      {
        issuedDaysAgo: 48,
        termsDays: 30,
        currency: 'EUR',
        amount: 12_500_00,
        messages: [
          { daysAgo: 15, stage: 'friendly', status: 'delivered' },
          { daysAgo: 8, stage: 'reminder', status: 'delivered' },
        ],
      },
      {
        issuedDaysAgo: 75,
        termsDays: 30,
        currency: 'EUR',
        amount: 4_300_00,
        paidAmount: 2_000_00,
        paidDaysAgo: 20,
        messages: [
          { daysAgo: 42, stage: 'friendly', status: 'delivered' },
          { daysAgo: 35, stage: 'reminder', status: 'delivered' },
          { daysAgo: 1, stage: 'firm', status: 'awaiting_approval' },
        ],
      },
    ],
  },
  {
    externalId: 'C-1003',
    name: 'Umbrella Trading Co.',
    email: 'finance@umbrella.example',
    country: 'GB',
    city: 'Leeds',
    termsDays: null,
    invoices: [
      {
        issuedDaysAgo: 95,
        termsDays: 30,
        currency: 'GBP',
        amount: 780_00,
        messages: [{ daysAgo: 60, stage: 'friendly', status: 'bounced' }],
      },
      { issuedDaysAgo: 2, termsDays: 30, currency: 'GBP', amount: 1_120_00, draft: true },
    ],
  },
  {
    externalId: 'C-1004',
    name: '北斗商事株式会社',
    email: 'keiri@hokuto.example',
    country: 'JP',
    city: '大阪市',
    termsDays: 60,
    invoices: [
      { issuedDaysAgo: 20, termsDays: 60, currency: 'JPY', amount: 386_000 },
      { issuedDaysAgo: 120, termsDays: 60, currency: 'JPY', amount: 54_000, paidDaysAgo: 58 },
    ],
  },
  {
    externalId: 'C-1005',
    name: 'Café Zoë & Söhne',
    email: null,
    country: 'BE',
    city: 'Gent',
    termsDays: 14,
    invoices: [
      {
        issuedDaysAgo: 33,
        termsDays: 14,
        currency: 'EUR',
        amount: 64_90,
        messages: [{ daysAgo: 16, stage: 'friendly', status: 'suppressed' }],
      },
    ],
  },
  {
    externalId: 'C-1006',
    name: 'Al-Noor Supplies W.L.L.',
    email: 'accounts@alnoor.example',
    country: 'KW',
    city: 'Kuwait City',
    termsDays: 30,
    invoices: [{ issuedDaysAgo: 10, termsDays: 30, currency: 'KWD', amount: 1_250_750 }],
  },
]
