/** Words that readers search for, and the words that these pages use instead. */
const SYNONYMS = {
  auth: ['authentication'],
  backoff: ['retry-after', 'retries'],
  bulk: ['batch'],
  bill: ['invoice'],
  callback: ['webhook'],
  breaks: ['break', 'deprecation'],
  changed: ['sync', 'updated_at'],
  client: ['debtor', 'customer', 'clients'],
  cent: ['minor'],
  cents: ['minor'],
  cursor: ['pagination'],
  customer: ['debtor'],
  customers: ['customer', 'debtors'],
  decimal: ['minor', 'exponent'],
  decimals: ['minor', 'exponent'],
  dunning: ['reminders', 'chasing'],
  duplicate: ['idempotency', 'replayed', 'twice'],
  expire: ['expires'],
  hmac: ['signature'],
  incremental: ['updated_since'],
  ip: ['address'],
  library: ['clients', 'package'],
  localhost: ['machine', 'tunnel'],
  locked: ['read-only'],
  login: ['key'],
  next: ['cursor', 'page'],
  offset: ['cursor', 'pagination'],
  page: ['pagination', 'cursor'],
  paging: ['pagination', 'cursor'],
  pagination: ['cursor'],
  quota: ['limit'],
  refund: ['reversal', 'reversed', 'reverse'],
  retried: ['retry'],
  retries: ['retry', 'idempotency'],
  retry: ['idempotency', 'repeat'],
  rotate: ['rotation'],
  sandbox: ['demo', 'test'],
  sdk: ['clients'],
  staging: ['demo', 'test'],
  support: ['help'],
  sync: ['copy', 'updated_since'],
  throttle: ['limit'],
  throttling: ['limit'],
  timezone: ['zone'],
  token: ['key'],
  unsubscribe: ['unsubscribed'],
  verify: ['signature'],
  versioned: ['versions'],
  wrong: ['mismatch', 'unsupported'],
}

/** Words that occur in many questions and say nothing about the subject. */
const STOP_WORDS = new Set(
  'a about an and any are at avoid be by can do does for from get how i if in is it me mean means my of often on or our s should t that the there to up use was we what when where which who why will with you your'.split(
    ' ',
  ),
)

/**
 * Guides explain a subject, so they rank first; errors and the reference describe a single code or name. The codes of
 * Settings rank below those of the API, because few integrators look for them.
 */
const SUBJECT_BOOSTS = { guide: 1.6, reference: 0.8, error: 0.7, settings_error: 0.6 }
/** A query such as `423` or `insufficient_scope` names a status, a code or a field. */
const NAME = /[\d_]/
const NAME_BOOSTS = { guide: 1.6, reference: 0.8, error: 2, settings_error: 0.8 }

/** Returns a function that finds and ranks sections. `index` is the serialized index from the service. */
export function createSearcher(MiniSearch, index) {
  const searcher = MiniSearch.loadJSON(index, {
    fields: ['title', 'page', 'text'],
    storeFields: ['href', 'page', 'title', 'text', 'kind'],
  })
  return (text) => {
    const words = text
      .toLowerCase()
      .split(/[\s?!,;:"()]+/)
      .filter((word) => word !== '')
    const significant = words.filter((word) => !STOP_WORDS.has(word))
    const chosen = significant.length > 0 ? significant : words
    if (chosen.length === 0) return []
    const boosts = chosen.some((word) => NAME.test(word)) ? NAME_BOOSTS : SUBJECT_BOOSTS
    const options = {
      boost: { title: 5, page: 2 },
      prefix: (term, at, terms) => at === terms.length - 1 && term.length > 1,
      fuzzy: (term) => (term.length > 4 ? 0.25 : false),
      boostDocument: (_id, _term, { kind }) => boosts[kind],
    }
    const search = (combineWith) =>
      searcher.search(
        {
          combineWith,
          queries: chosen.map((word) => ({
            combineWith: 'OR',
            queries: [word, ...(SYNONYMS[word] ?? [])],
          })),
        },
        options,
      )
    const all = search('AND')
    return all.length > 0 ? all : search('OR')
  }
}

/** Returns the text around the first match, split into pieces that match and pieces that do not. */
export function excerptOf({ text, terms }) {
  const escapedTerms = terms
    .toSorted((a, b) => b.length - a.length)
    .map((term) => RegExp.escape(term))
  const pattern = new RegExp(`(${escapedTerms.join('|')})`, 'gi')
  const at = Math.max(0, text.search(pattern))
  const from = at < 60 ? 0 : text.lastIndexOf(' ', at - 40) + 1
  const excerpt = text.slice(from, from + 160)
  const pieces = `${from > 0 ? '… ' : ''}${excerpt}${from + 160 < text.length ? ' …' : ''}`
  return pieces.split(pattern).map((piece, index) => ({ piece, isFound: index % 2 === 1 }))
}
