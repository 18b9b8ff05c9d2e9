/**
 * Shows progress: on a terminal as one line that is redrawn, otherwise as a new line every few seconds, or every minute
 * while the work waits.
 */
import { formatDuration } from './forecast.ts'

export interface ProgressStream {
  readonly isTTY?: boolean
  /** The width of the terminal; absent or 0 if it is unknown. */
  readonly columns?: number
  write(text: string): unknown
}

export interface Progress {
  /** Writes a line that is not overwritten. */
  note(line: string): void
  /**
   * Begins a phase of the work. `minSecondsFor` returns the minimum time that the remaining records need because of the
   * rate limit.
   */
  begin(label: string, total?: number, minSecondsFor?: (remaining: number) => number): void
  advance(count?: number): void
  /** Shows why the work waits. The reason disappears at `untilMs` or with the next call of `advance`. */
  showWait(reason: string, untilMs: number): void
  /** Ends the phase and keeps its last line. */
  end(): void
}

export interface ProgressState {
  readonly label: string
  readonly total: number | undefined
  readonly done: number
  readonly elapsedSeconds: number
  readonly minSecondsLeft: number
  readonly wait: { readonly reason: string; readonly seconds: number } | undefined
}

const REDRAW_MS = 200
const LOG_LINE_MS = 5000
/** With this interval, a wait of an hour writes 60 lines to a log instead of 720. */
const LOG_WAIT_LINE_MS = 60_000
const BAR_WIDTH = 24
const COLUMNS_IF_UNKNOWN = 80

export function createProgress(stream: ProgressStream): Progress {
  let phase: Phase | undefined
  let wait: { reason: string; untilMs: number } | undefined
  let timer: NodeJS.Timeout | undefined
  let shown = ''
  let shownWaitAtMs = 0

  function render(): string {
    if (phase === undefined) return ''
    const now = Date.now()
    const waitSeconds = wait === undefined ? 0 : Math.ceil((wait.untilMs - now) / 1000)
    return renderProgress({
      ...phase,
      elapsedSeconds: (now - phase.startedAtMs) / 1000,
      minSecondsLeft: phase.minSecondsFor((phase.total ?? phase.done) - phase.done),
      wait: wait && waitSeconds > 0 ? { reason: wait.reason, seconds: waitSeconds } : undefined,
    })
  }
  function draw(): void {
    const line = render()
    if (!stream.isTTY && wait !== undefined && wait.untilMs > Date.now()) {
      if (Date.now() - shownWaitAtMs < LOG_WAIT_LINE_MS) return
      shownWaitAtMs = Date.now()
    }
    if (stream.isTTY) {
      stream.write(`\r\x1b[K${line.slice(0, (stream.columns || COLUMNS_IF_UNKNOWN) - 1)}`)
    } else if (line !== shown) {
      stream.write(`${line}\n`)
    }
    shown = line
  }
  return {
    note(line) {
      stream.write(stream.isTTY && phase !== undefined ? `\r\x1b[K${line}\n` : `${line}\n`)
    },
    begin(label, total, minSecondsFor = () => 0) {
      phase = { label, total, done: 0, startedAtMs: Date.now(), minSecondsFor }
      timer = setInterval(draw, stream.isTTY ? REDRAW_MS : LOG_LINE_MS)
    },
    advance(count = 1) {
      if (phase !== undefined) phase.done += count
      // Another request may still wait, but the work continues.
      wait = undefined
    },
    showWait(reason, untilMs) {
      wait = { reason, untilMs }
    },
    end() {
      clearInterval(timer)
      if (phase === undefined) return
      wait = undefined
      draw()
      if (stream.isTTY) stream.write('\n')
      phase = undefined
    },
  }
}

interface Phase {
  readonly label: string
  readonly total: number | undefined
  done: number
  readonly startedAtMs: number
  readonly minSecondsFor: (remaining: number) => number
}

export function renderProgress(state: ProgressState): string {
  const { label, total, done, elapsedSeconds, minSecondsLeft, wait } = state
  const rate = elapsedSeconds > 0 ? done / elapsedSeconds : 0
  const count = total === undefined ? format(done) : `${format(done)} of ${format(total)}`
  const parts = [total === undefined ? label : `${label} ${renderBar(done, total)}`, count]
  if (rate > 0) parts.push(`${rate < 10 ? rate.toFixed(1) : format(Math.round(rate))}/s`)
  if (total !== undefined && rate > 0 && done < total) {
    parts.push(`${formatDuration(Math.max((total - done) / rate, minSecondsLeft))} left`)
  }
  // The reason comes first, because the end of the line is cut off on a narrow terminal.
  if (wait !== undefined)
    parts.unshift(`${wait.reason}, continues in ${formatDuration(wait.seconds)};`)
  return parts.join('  ')
}

function renderBar(done: number, total: number): string {
  const filled = total === 0 ? BAR_WIDTH : Math.floor((done / total) * BAR_WIDTH)
  return `[${'#'.repeat(filled)}${'-'.repeat(BAR_WIDTH - filled)}]`
}

function format(count: number): string {
  return count.toLocaleString('en-US')
}
