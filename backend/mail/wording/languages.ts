/** The languages of mails to debtors, and of the unsubscribe page to which these mails link. */

export const LANGUAGES = ['en', 'nl', 'de', 'fr'] as const
export type Language = (typeof LANGUAGES)[number]

/**
 * Returns the first language that is available, or else English. Only the first part of each BCP 47 tag counts: `de-AT`
 * is German.
 */
export function chooseLanguage(...tags: readonly (string | null | undefined)[]): Language {
  for (const tag of tags) {
    const primary = tag?.split('-')[0]?.toLowerCase()
    const available = LANGUAGES.find((language) => language === primary)
    if (available !== undefined) return available
  }
  return 'en'
}

/** Limits the work for one request. Browsers send far shorter headers. */
const HEADER_LENGTH_MAX = 500

/** Returns the language tags of an `Accept-Language` header, the most preferred first. */
export function acceptedTags(header: string | undefined): string[] {
  const ranges = (header ?? '').slice(0, HEADER_LENGTH_MAX).split(',')
  return ranges
    .map((range) => {
      const [tag = '', quality = ''] = range.split(';')
      return { tag: tag.trim(), weight: Number(/^\s*q=([\d.]+)\s*$/.exec(quality)?.[1] ?? '1') }
    })
    .filter(({ tag, weight }) => tag !== '' && weight > 0)
    .sort((a, b) => b.weight - a.weight)
    .map(({ tag }) => tag)
}
