/** Derives the name of a browser, e.g. `Firefox on Windows`, from its User-Agent header. */

type Names = readonly (readonly [pattern: RegExp, name: string])[]

/** The first match is used, because the header also names other browsers with which the browser is compatible. */
const BROWSERS: Names = [
  [/Edg(?:A|iOS)?\//, 'Edge'],
  [/(?:OPR|OPT|OPiOS)\//, 'Opera'],
  [/SamsungBrowser\//, 'Samsung Internet'],
  [/(?:Firefox|FxiOS)\//, 'Firefox'],
  [/(?:Chrome|Chromium|CriOS)\//, 'Chrome'],
  [/Safari\//, 'Safari'],
]
/**
 * The first match is used, because the header of Android also names Linux, and the header of iOS names Mac OS X. If a
 * browser on an iPad requests pages for desktops, only the name of the browser, e.g. `CriOS`, shows that it runs on
 * iOS.
 */
const SYSTEMS: Names = [
  [/Android/, 'Android'],
  [/iPhone|iPad|iPod|(?:Cri|Fx|Edgi|OPi)OS\//, 'iOS'],
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
