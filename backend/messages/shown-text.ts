const MASK = '•••'
const PREVIEW_CHARS_MAX = 200
/** The preview uses only the beginning of a body, because hostile markup in a long reply could take long to remove. */
const BODY_CHARS_MAX = 4000

/**
 * Masks `ap@acme.example` as `a•••@acme.example`, a telephone number except its last three digits, and any other
 * recipient entirely.
 */
export function maskRecipient(recipient: string): string {
  const at = recipient.lastIndexOf('@')
  if (at > 0) return `${[...recipient][0]}${MASK}${recipient.slice(at)}`
  return /^\+\d+$/.test(recipient) ? `${MASK}${recipient.slice(-3)}` : MASK
}

/** Returns the beginning of the text, on one line and without markup. */
export function previewOf(body: string): string {
  const text = body
    .slice(0, BODY_CHARS_MAX)
    // The cut can separate the two halves of a character, such as an emoji.
    .toWellFormed()
    // The cut can also be before the end tag of a style or script.
    .replace(/<(script|style)\b[^>]*>.*?(?:<\/\1\s*>|$)/gis, ' ')
    .replace(/<\/?[a-z!][^<>]*>/gi, ' ')
    .replace(/\s+/g, ' ')
    .trim()
  const characters = [...text]
  if (characters.length <= PREVIEW_CHARS_MAX) return text
  return `${characters.slice(0, PREVIEW_CHARS_MAX - 1).join('')}…`
}
