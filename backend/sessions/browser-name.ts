/** Derives the name of a browser, e.g. `Firefox on Windows`, from its User-Agent header. */

type Names = readonly (readonly [pattern: RegExp, name: string])[]

/** The first match is used, because the header also names other browsers with which the browser is compatible. */
const BROWSERS: Names = [
  [/Edg\//, 'Edge'],
  [/OPR\//, 'Opera'],
  [/Firefox\//, 'Firefox'],
  [/Chrom(?:e|ium)\//, 'Chrome'],
  [/Safari\//, 'Safari'],
]
/** The first match is used, because the header of Android also names Linux, and the header of iOS names Mac OS X. */
const SYSTEMS: Names = [
  [/Android/, 'Android'],
  [/iPhone|iPad/, 'iOS'],
  [/Windows/, 'Windows'],
  [/Mac OS X/, 'macOS'],
  [/Linux/, 'Linux'],
]

export function browserName(userAgent: string | null): string {
  const nameIn = (names: Names) => names.find(([pattern]) => pattern.test(userAgent ?? ''))?.[1]
  const browser = nameIn(BROWSERS)
  if (browser === undefined) return userAgent === null ? 'Unknown' : 'A script'
  const system = nameIn(SYSTEMS)
  return system === undefined ? browser : `${browser} on ${system}`
}
