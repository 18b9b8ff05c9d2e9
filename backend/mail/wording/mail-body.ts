/**
 * Renders the body of a mail as text and as HTML. Both have the same content in the same order, but only the HTML has
 * the logo or sender's name at the top, the title, and the headings of the table. For mail programs, the HTML has
 * tables and inline styles, loads nothing, and is readable without styles.
 */
import type { Logo, LogoProperties } from '../../accounts/logo.ts'
import { Html, html } from '../../html/html.ts'

export interface MailBody {
  /** A BCP 47 tag. */
  readonly language: string
  /** Determines the color of the line at the top, of links and of the button. */
  readonly tone: keyof typeof TONES
  readonly sender: string
  /** The logo, which replaces the sender's name above the title. */
  readonly logo?: LogoProperties | undefined
  readonly title: string
  /** If it is absent, the subject is the title. */
  readonly subject?: string
  readonly greeting: string
  readonly opening: readonly string[]
  readonly table?: MailTable
  /** A button, e.g. to pay online. */
  readonly action?: MailLink | undefined
  /** How to pay, e.g. a bank account for each currency. */
  readonly payment?: readonly MailPayment[]
  readonly closing: readonly string[]
  /** The lines at the end, e.g. “Kind regards,” and the sender's name. */
  readonly signOff: readonly string[]
  /** The small print, e.g. on whose behalf the mail was sent. */
  readonly footer: readonly string[]
  readonly unsubscribe?: MailLink | undefined
}

export interface MailTable {
  readonly caption: string
  readonly headings: readonly [string, string]
  readonly rows: readonly MailRow[]
  readonly totals: readonly { readonly label: string; readonly amount: string }[]
}

export interface MailPayment {
  readonly title: string
  readonly lines: readonly { readonly label: string; readonly value: string }[]
  readonly link: MailLink | undefined
}

export interface MailRow {
  readonly name: string
  /** Lines below the name, e.g. the due date. */
  readonly notes: readonly string[]
  readonly amount: string
  readonly link: MailLink | undefined
}

export interface MailLink {
  readonly label: string
  readonly url: string
}

/** The Content-ID of the attached logo. */
export const LOGO_CID = 'logo@receivables'

/** The largest size of a logo, in CSS pixels; its proportions are kept. */
export const LOGO_WIDTH_MAX = 220
export const LOGO_HEIGHT_MAX = 56

const TONES = {
  calm: { light: '#2f7d6b', dark: '#6fcfb8' },
  plain: { light: '#1f4fd8', dark: '#9bb5ff' },
  firm: { light: '#a65a00', dark: '#f0b266' },
  grave: { light: '#b3261e', dark: '#ff9d94' },
} as const

/** Embeds the logo as a data URL, for a page of Settings, where the Content-ID of an attachment has no meaning. */
export function embedLogo(mailHtml: string, logo: Logo | undefined): string {
  if (logo === undefined) return mailHtml
  const source = `data:${logo.mediaType};base64,${logo.content.toString('base64')}`
  return mailHtml.replace(`<img src="cid:${LOGO_CID}"`, `<img src="${source}"`)
}

export function renderMailText(body: MailBody): string {
  const { table, action, payment = [], unsubscribe } = body
  return [
    body.greeting,
    ...body.opening,
    ...(table === undefined ? [] : [renderTableText(table)]),
    ...(action === undefined ? [] : [`${action.label}:\n${action.url}`]),
    ...payment.map(renderPaymentText),
    ...body.closing,
    body.signOff.join('\n'),
    // Many mail programs show the lines after `-- ` less prominently, and omit them from replies.
    ['-- ', ...body.footer].join('\n'),
    ...(unsubscribe === undefined ? [] : [`${unsubscribe.label}:\n${unsubscribe.url}`]),
  ].join('\n\n')
}

function renderTableText({ rows, totals }: MailTable): string {
  const lines = rows.map(({ name, notes, amount, link }) =>
    [
      `${name}: ${amount}`,
      ...notes.map((note) => `  ${note}`),
      ...(link === undefined ? [] : [`  ${link.label}: ${link.url}`]),
    ].join('\n'),
  )
  const sums = totals.map(({ label, amount }) => `${label}: ${amount}`)
  return [...lines, ...(sums.length === 0 ? [] : [sums.join('\n')])].join('\n\n')
}

function renderPaymentText({ title, lines, link }: MailPayment): string {
  const facts = lines.map(({ label, value }) => `  ${label}: ${value}`)
  const links = link === undefined ? [] : [`  ${link.label}: ${link.url}`]
  return [`${title}:`, ...facts, ...links].join('\n')
}

const FONT = new Html("font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif")
const INK = new Html('color:#1c2330')
const SOFT = new Html('color:#56606f')
const PARAGRAPH = html`margin:0 0 16px;font-size:16px;line-height:1.55;${INK}`
const CELL = new Html(
  'padding:14px 0;border-bottom:1px solid #dfe4ea;vertical-align:top;text-align:left;font-weight:normal',
)

/**
 * Returns the style sheet: the dark scheme, and the layout on narrow screens. Mail programs that ignore it use the
 * light inline styles.
 */
function styleSheet(tone: keyof typeof TONES): Html {
  const { light, dark } = TONES[tone]
  return new Html(`
:root{color-scheme:light dark;supported-color-schemes:light dark}
@media (prefers-color-scheme:dark){
.ground{background:#11151c!important}
.paper{background:#1a202b!important;border-color:#2e3745!important}
.bar{background:${dark}!important}
.ink,.ink a{color:#e8ebf0!important}
.soft,.soft a{color:#a8b1be!important}
.rule{border-color:#2e3745!important}
.logo img{padding:6px;border-radius:6px}
.button{background:${dark}!important}
.button a{color:#11151c!important}
a.link{color:${dark}!important}
}
@media (max-width:480px){.pad{padding:24px 20px!important}.title{font-size:20px!important}}
@media (max-width:340px){.fact>*{display:block;padding:0!important}.fact>td{padding-bottom:8px!important}}
a.link{color:${light}}`)
}

export function renderMailHtml(body: MailBody): string {
  const { language, tone, title, sender, footer, unsubscribe } = body
  const color = new Html(TONES[tone].light)
  return html`<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>${title}</title>
<style>${styleSheet(tone)}</style>
</head>
<body class="ground" style="margin:0;padding:0;background:#f3f5f8;${FONT}">
<table role="presentation" lang="${language}" width="100%" cellpadding="0" cellspacing="0" border="0" class="ground" style="background:#f3f5f8"><tr><td align="center" style="padding:24px 12px">
<table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" class="paper" style="max-width:600px;background:#ffffff;border:1px solid #dfe4ea;border-radius:12px;border-collapse:separate;overflow:hidden">
<tr><td class="bar" style="height:5px;line-height:5px;font-size:0;background:${color}">&nbsp;</td></tr>
<tr><td class="pad" style="padding:32px 36px;word-break:break-word;overflow-wrap:anywhere;${FONT}">
${body.logo === undefined ? html`<p class="soft" style="margin:0 0 6px;font-size:14px;line-height:1.4;font-weight:600;${SOFT}">${sender}</p>` : renderLogo(body.logo, sender)}
<h1 class="title ink" style="margin:0 0 20px;font-size:23px;line-height:1.25;font-weight:700;hyphens:auto;-webkit-hyphens:auto;${INK}">${title}</h1>
${paragraphs([body.greeting, ...body.opening])}
${body.table && renderTable(body.table, color)}
${body.action && renderAction(body.action, color)}
${body.payment?.map((payment) => renderPayment(payment, color))}
${paragraphs(body.closing)}
<p class="ink" style="${PARAGRAPH}">${body.signOff.map((line, at) => (at === 0 ? line : html`<br><strong>${line}</strong>`))}</p>
</td></tr></table>
<table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="max-width:600px"><tr><td class="soft" style="padding:20px 24px;font-size:13px;line-height:1.55;text-align:center;overflow-wrap:anywhere;${SOFT};${FONT}">
${footer.map((line) => html`<p style="margin:0 0 8px">${line}</p>`)}
${unsubscribe && html`<p style="margin:0"><a href="${unsubscribe.url}" style="${SOFT};text-decoration:underline">${unsubscribe.label}</a></p>`}
</td></tr></table>
</td></tr></table>
</body>
</html>
`.text
}

/** The logo's background is white even in the dark scheme, because most logos are made for white paper. */
function renderLogo({ width, height }: LogoProperties, sender: string): Html {
  const scale = Math.min(1, LOGO_WIDTH_MAX / width, LOGO_HEIGHT_MAX / height)
  const size = (pixels: number) => Math.max(1, Math.round(pixels * scale))
  return html`<p class="logo" style="margin:0 0 20px;font-size:14px;line-height:1.4;font-weight:600"><img src="cid:${LOGO_CID}" alt="${sender}" width="${size(width)}" height="${size(height)}" style="display:inline-block;vertical-align:top;border:0;max-width:100%;height:auto;background:#ffffff;${INK}"></p>`
}

function paragraphs(texts: readonly string[]): Html {
  return html`${texts.map((text) => html`<p class="ink" style="${PARAGRAPH}">${withLineBreaks(text)}</p>\n`)}`
}

function withLineBreaks(text: string): Html {
  return html`${text.split('\n').map((line, at) => html`${at > 0 && html`<br>`}${line}`)}`
}

function renderTable({ caption, headings, rows, totals }: MailTable, color: Html): Html {
  const head = html`padding:0 0 8px;border-bottom:2px solid #dfe4ea;font-size:13px;line-height:1.4;font-weight:600;${SOFT}`
  return html`<table width="100%" cellpadding="0" cellspacing="0" border="0" aria-label="${caption}" style="margin:8px 0 24px;border-collapse:collapse">
<thead><tr><th scope="col" align="left" class="soft rule" style="${head}">${headings[0]}</th><th scope="col" align="right" class="soft rule" style="${head};text-align:right">${headings[1]}</th></tr></thead>
<tbody>${rows.map((row) => renderRow(row, color))}</tbody>
${totals.length > 0 && html`<tfoot>${totals.map(({ label, amount }) => html`<tr><th scope="row" align="left" class="ink" style="padding:14px 0 0;font-size:16px;text-align:left;${INK}">${label}</th><td align="right" class="ink" style="padding:14px 0 0;font-size:18px;font-weight:700;white-space:nowrap;${INK}">${amount}</td></tr>`)}</tfoot>`}
</table>`
}

function renderRow({ name, notes, amount, link }: MailRow, color: Html): Html {
  return html`<tr><th scope="row" align="left" class="rule ink" style="${CELL};font-size:16px;line-height:1.4;${INK}"><strong>${name}</strong>${notes.map((note) => html`<br><span class="soft" style="font-size:14px;${SOFT}">${note}</span>`)}${link && html`<br><a class="link" href="${link.url}" style="font-size:14px;color:${color}">${link.label}</a>`}</th>
<td align="right" class="rule ink" style="${CELL};padding-left:16px;text-align:right;white-space:nowrap;font-size:16px;line-height:1.4;${INK}">${amount}</td></tr>
`
}

function renderAction({ label, url }: MailLink, color: Html): Html {
  return html`<table role="presentation" cellpadding="0" cellspacing="0" border="0" style="margin:0 0 24px"><tr><td class="button" style="border-radius:8px;background:${color}"><a href="${url}" style="display:inline-block;padding:13px 26px;font-size:16px;line-height:1.3;font-weight:600;color:#ffffff;text-decoration:none;${FONT}">${label}</a></td></tr></table>`
}

function renderPayment({ title, lines, link }: MailPayment, color: Html): Html {
  const cell = html`padding:2px 16px 2px 0;font-size:15px;line-height:1.5;font-weight:normal;text-align:left;vertical-align:top`
  return html`<h2 class="ink" style="margin:0 0 6px;font-size:16px;line-height:1.4;font-weight:700;${INK}">${title}</h2>
${lines.length > 0 && html`<table cellpadding="0" cellspacing="0" border="0" aria-label="${title}" style="margin:0 0 10px;border-collapse:collapse">${lines.map(({ label, value }) => html`<tr class="fact"><th scope="row" align="left" class="soft" style="${cell};word-break:normal;overflow-wrap:normal;${SOFT}">${label}</th><td class="ink" style="${cell};word-break:break-word;${INK}">${value}</td></tr>`)}</table>`}
${link && html`<p style="margin:0 0 10px;font-size:15px;line-height:1.5"><a class="link" href="${link.url}" style="color:${color}">${link.label}</a></p>`}
<div style="height:10px;line-height:10px;font-size:0">&nbsp;</div>
`
}
