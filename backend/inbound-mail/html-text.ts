/** Converts the HTML of a mail into text. */
import { truncate } from '../validation/truncate.ts'

/** How many characters are converted, because hostile markup is slow to strip. */
const HTML_CHARS_MAX = 10_000

export function textOfHtml(html: string): string {
  // Mail programs write styles before the text, and these can be longer than the part that is read.
  return truncate(withoutHiddenText(html), HTML_CHARS_MAX)
    .replace(/\s+/g, ' ')
    .replace(/<(?:br|\/(?:p|div|tr|li|h[1-6]))\b[^<>]*>/gi, '\n')
    .replace(/<\/t[dh]\b[^<>]*>/gi, ' ')
    .replace(/<[^<>]*>/g, '')
    .replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w{2,6}));/gi, decodeReference)
    .replace(/^ +| +$/gm, '')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
}

/**
 * Returns the markup without its comments, styles, scripts and title. Reads each tag only once. A regular expression
 * for a whole element would search all following markup for the end tag, once for each start tag.
 */
function withoutHiddenText(html: string): string {
  let rest = ''
  let open: string | undefined
  let end = 0
  for (const { 0: tag, 1: slash, 2: name, index } of html.matchAll(
    /<!--|-->|<(\/?)(style|script|title)\b[^<>]*>?/gi,
  )) {
    const element = name?.toLowerCase() ?? '!--'
    const isEnd = name === undefined ? tag === '-->' : slash === '/'
    if (open === undefined) {
      if (tag === '-->') continue
      rest += `${html.slice(end, index)} `
    } else if (!isEnd || element !== open) continue
    open = isEnd ? undefined : element
    end = index + tag.length
  }
  return open === undefined ? rest + html.slice(end) : rest
}

/** The names of the characters from U+00A0 to U+00FF in HTML, in their order. */
const LATIN_NAMES =
  'nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro ' +
  'para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil ' +
  'Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave ' +
  'Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml ' +
  'igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute ' +
  'thorn yuml'

const CHARACTERS_BY_NAME = new Map([
  ...LATIN_NAMES.split(' ').map((name, at): [string, string] => [
    name,
    String.fromCodePoint(0xa0 + at),
  ]),
  ...Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ', euro: '€' }),
  ...Object.entries({ ndash: '–', mdash: '—', hellip: '…', bull: '•', trade: '™' }),
  ...Object.entries({ lsquo: '‘', rsquo: '’', sbquo: '‚', ldquo: '“', rdquo: '”', bdquo: '„' }),
  ...Object.entries({ lsaquo: '‹', rsaquo: '›', oelig: 'œ', OElig: 'Œ', zwnj: '\u200c' }),
])

/** Decodes a character reference of HTML. Returns an unknown reference unchanged. */
function decodeReference(
  whole: string,
  decimal: string | undefined,
  hex: string | undefined,
  name: string | undefined,
): string {
  if (name !== undefined) return CHARACTERS_BY_NAME.get(name) ?? whole
  const code = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal)
  return code <= 0x10ffff ? String.fromCodePoint(code).toWellFormed() : whole
}
