import type { Stream } from 'sluice/client'
import type { ReportSink, SinkEvents } from 'sluice/plugins/sink'
import type { IO } from '../io.js'
import { count } from '../output/feeds.js'

/** Prints what happens between a sink and its store. */
export function noteSink(
  stream: Stream<unknown, SinkEvents>,
  name: string,
  note: (line: string) => void,
): void {
  stream.on('sink', ({ state, pending, error }) => {
    const why = error === undefined ? '' : `: ${error.message}`
    if (state !== 'open') note(`${name} is ${state}, ${count(pending, 'report')} wait${why}`)
  })
}

/** A line on a terminal that says how far a sink has come. In a pipe there is none. */
export class ProgressLine {
  readonly #io: IO
  readonly #sink: ReportSink
  readonly #timer: ReturnType<typeof setInterval> | undefined

  constructor(sink: ReportSink, io: IO) {
    this.#sink = sink
    this.#io = io
    if (io.stderr.isTTY) this.#timer = setInterval(() => this.#draw(), 1000)
    this.#timer?.unref()
  }

  /** Prints something above the line. */
  above(print: () => void): void {
    if (this.#timer !== undefined) this.#io.stderr.write('\r\x1b[2K')
    print()
  }

  end(): void {
    clearInterval(this.#timer)
    this.above(() => undefined)
  }

  #draw(): void {
    const { written, candles, pending, lastWriteMs } = this.#sink.metrics()
    const bars = candles === 0 ? '' : `, ${count(candles, 'candle')}`
    const took =
      lastWriteMs === undefined ? '' : `, the last write took ${Math.round(lastWriteMs)} ms`
    const line = `${count(written, 'report')}${bars} stored, ${pending} wait${took}`
    const { stderr } = this.#io
    stderr.write(`\r\x1b[2K${line.slice(0, (stderr.columns ?? 80) - 1)}`)
  }
}
