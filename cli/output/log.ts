import type { Log } from '../../core/log.js'
import type { IO } from '../io.js'

/** A log on standard error, a line an event. */
export function standardError({ stderr }: IO): Log {
  const line = (level: string) => (message: string) =>
    void stderr.write(`${new Date().toISOString()} ${level} ${message}\n`)
  return { info: line('info'), warn: line('warn'), error: line('error') }
}
