/** Reads the media ranges of an `Accept` header (RFC 9110, section 12.5.1). */

/**
 * Maps each media range, in lower case and without parameters, to true if the client accepts it, or to false if its
 * weight is 0. A range that is listed several times is accepted if one of its weights is not 0.
 */
export function readAccept(accept: string): ReadonlyMap<string, boolean> {
  const ranges = new Map<string, boolean>()
  for (const item of accept.split(',')) {
    const [range = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase())
    const isExcluded = parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
    ranges.set(range, ranges.get(range) === true || !isExcluded)
  }
  return ranges
}
