/** The languages of mails to debtors. */

export const LANGUAGES = ['en', 'nl', 'de', 'fr'] as const
export type Language = (typeof LANGUAGES)[number]

/**
 * Returns the first available language, by the first part of each BCP 47 tag (`de-AT` is German); else
 * English.
 */
export function chooseLanguage(...tags: readonly (string | null | undefined)[]): Language {
  for (const tag of tags) {
    const primary = tag?.split('-')[0]?.toLowerCase()
    const spoken = LANGUAGES.find((language) => language === primary)
    if (spoken !== undefined) return spoken
  }
  return 'en'
}

/** The tags of `Accept-Language`, by descending preference. */
export function acceptedTags(header: string | undefined): string[] {
  const ranges = (header ?? '').slice(0, 500).split(',')
  return ranges
    .map((range) => {
      const [tag = '', quality = ''] = range.split(';')
      return { tag: tag.trim(), weight: Number(/^\s*q=([\d.]+)\s*$/.exec(quality)?.[1] ?? '1') }
    })
    .filter(({ tag, weight }) => tag !== '' && weight > 0)
    .sort((a, b) => b.weight - a.weight)
    .map(({ tag }) => tag)
}
