/**
 * Renders QR codes as SVG within the page. The encoded text may contain a secret, so it is neither in the URL of an
 * image nor used by a script.
 */
import { encode } from 'uqr'
import { type Html, html } from '../../html/html.ts'

/** The width of the white border that scanners need, in squares of the code (ISO/IEC 18004). */
const QUIET_ZONE = 4

/** Renders black on white in both color schemes, because some scanners read no other colors. */
export function renderQrCode(text: string, label: string): Html {
  const { data, size } = encode(text, { border: QUIET_ZONE })
  const squares = data.flatMap((row, y) =>
    row.flatMap((isBlack, x) => (isBlack ? [`M${x} ${y}h1v1h-1z`] : [])),
  )
  return html`<svg class="qr" viewBox="0 0 ${size} ${size}" role="img" aria-label="${label}" shape-rendering="crispEdges">
<rect width="${size}" height="${size}" fill="#fff"/><path fill="#000" d="${squares.join('')}"/></svg>`
}
