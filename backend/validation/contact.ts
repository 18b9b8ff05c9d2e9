import { domainToASCII } from 'node:url'
import { matching, parsed } from './fields.ts'

/** A dot-atom of RFC 5322, which every mail server accepts. Quoted local parts do not occur in practice. */
const LOCAL_PART = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/
/** A host name with at least two labels. */
const HOST_NAME = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/** The maximum number of characters in a host name (RFC 1035, section 2.3.4). */
export const HOST_NAME_LENGTH_MAX = 253

/** Returns the address with its host in lower case and ASCII; undefined if the text is not one address. */
export function parseEmail(text: string): string | undefined {
  const at = text.lastIndexOf('@')
  const local = text.slice(0, Math.max(at, 0))
  const host = text.slice(at + 1)
  // `domainToASCII` takes quadratic time, so a host that is too long to exist is not converted.
  if (!LOCAL_PART.test(local) || local.length > 64 || host.length > HOST_NAME_LENGTH_MAX)
    return undefined
  // `domainToASCII` parses its argument like the host of a URL, and ignores the text after e.g. a slash. Therefore only
  // letters, digits, dots and hyphens are allowed.
  const ascii = /^[\p{L}\p{M}\p{N}.-]+$/u.test(host) ? domainToASCII(host) : ''
  const address = `${local}@${ascii}`
  return HOST_NAME.test(ascii) && address.length <= 254 ? address : undefined
}

function parseLanguage(text: string): string | undefined {
  if (!/^[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*$/.test(text)) return undefined
  try {
    return Intl.getCanonicalLocales(text)[0]
  } catch {
    return undefined
  }
}

export const email = parsed(parseEmail, 'one e-mail address', { max: 254 })
export const phone = matching(/^\+[1-9]\d{6,14}$/, 'a number in E.164 form, e.g. +31205550142', {
  max: 64,
})
export const language = parsed(parseLanguage, 'a BCP 47 language tag, e.g. nl', { max: 35 })

/** The country codes of ISO 3166-1 alpha-2. */
const COUNTRIES = new Set(
  `AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS
   BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE
   EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM
   HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC
   LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA
   NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW
   SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO
   TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW`.split(/\s+/),
)

export const country = parsed(
  (value) => (COUNTRIES.has(value) ? value : undefined),
  'a country code of ISO 3166-1, e.g. NL',
)
