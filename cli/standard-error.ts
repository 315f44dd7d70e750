import type { Log } from '../core/log.js'

const line = (level: string) => (message: string) =>
  void process.stderr.write(`${new Date().toISOString()} ${level} ${message}\n`)

/** A log on standard error, a line an event. */
export const standardError: Log = { info: line('info'), warn: line('warn'), error: line('error') }
