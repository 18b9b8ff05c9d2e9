/** What of a message's recipient and text the API shows. */

const MASK = '•••'
const PREVIEW_MAX = 200
/** As much of a body as is looked at: a reply can be long, and made to be slow to strip. */
const READ_MAX = 4000

/** `ap@acme.example` as `a•••@acme.example`; of a telephone number the last three digits stay. */
export function maskRecipient(recipient: string): string {
  const at = recipient.lastIndexOf('@')
  if (at > 0) return `${[...recipient][0]}${MASK}${recipient.slice(at)}`
  return /^\+\d+$/.test(recipient) ? `${MASK}${recipient.slice(-3)}` : MASK
}

/** The beginning of the text on one line, without markup. */
export function previewOf(body: string): string {
  const text = body
    .slice(0, READ_MAX)
    .replace(/<(script|style)\b[^>]*>.*?<\/\1\s*>/gis, ' ')
    .replace(/<\/?[a-z!][^<>]*>/gi, ' ')
    .replace(/\s+/g, ' ')
    .trim()
  const characters = [...text]
  if (characters.length <= PREVIEW_MAX) return text
  return `${characters.slice(0, PREVIEW_MAX - 1).join('')}…`
}
