import { type Html, html } from '../../html/html.ts'

/** Both sizes are in units of the SVG's view box. The page stretches the chart to the available width. */
export const CHART_HEIGHT = 80
export const BAR_WIDTH = 10

/**
 * Returns the smallest of 2, 4, 10, 20, 40, 100 and so on that is not less than `largest`. The scale also shows half of
 * this number, which is a whole number too.
 */
export function topOfScale(largest: number): number {
  for (let magnitude = 1; ; magnitude *= 10) {
    const found = [2, 4, 10].map((step) => step * magnitude).find((top) => top >= largest)
    if (found !== undefined) return found
  }
}

interface Chart {
  /** A description for people who cannot see the chart. */
  readonly summary: string
  /** The value at the top of the scale, see `topOfScale`. */
  readonly top: number
  /** SVG elements. Each bar takes `BAR_WIDTH`. */
  readonly bars: readonly Html[]
  /** The labels of the first, the middle and the last bar. */
  readonly labels: readonly string[]
}

export function renderChartFrame({ summary, top, bars, labels }: Chart): Html {
  const width = bars.length * BAR_WIDTH
  const scale = [top, top / 2, 0]
  return html`<div class="plot"><p class="scale" aria-hidden="true">${scale.map((value) => html`<span>${value.toLocaleString('en')}</span>`)}</p>
<svg class="chart" role="img" aria-label="${summary}" viewBox="0 0 ${width} ${CHART_HEIGHT}" preserveAspectRatio="none">
${[0, 0.5].map((part) => html`<line class="grid" x1="0" x2="${width}" y1="${part * CHART_HEIGHT}" y2="${part * CHART_HEIGHT}"/>`)}
${bars}</svg></div>
<p class="axis" aria-hidden="true">${labels.map((label) => html`<span>${label}</span>`)}</p>`
}
