import { decodeHTML } from 'entities'
import { truncate } from '../validation/truncate.ts'

/** Limits the converted characters, because hostile markup could take long to strip. */
const HTML_CHARS_MAX = 10_000

export function textOfHtml(html: string): string {
  // Hidden text is removed first: the styles that mail programs write before the text can be longer than the limit.
  const markup = truncate(withoutHiddenText(html), HTML_CHARS_MAX)
    .replace(/\s+/g, ' ')
    .replace(/<(?:br|\/(?:p|div|tr|li|h[1-6]))\b[^<>]*>/gi, '\n')
    .replace(/<\/t[dh]\b[^<>]*>/gi, ' ')
    .replace(/<[^<>]*>/g, '')
  return decodeHTML(markup)
    .replaceAll('\u00a0', ' ')
    .replace(/^ +| +$/gm, '')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
}

/**
 * Removes comments, styles, scripts and titles in linear time. A regular expression for whole elements would search all
 * following markup once for each start tag.
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
