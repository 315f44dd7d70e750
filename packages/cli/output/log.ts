import type { Config } from 'sluice'
import type { Log } from 'sluice/core'
import type { Logger } from 'sluice/plugins/logging'
import { type IO, warn } from '../io.js'

/** A log on standard error, with one line per event. Lines have the name of the process, if any. */
export function standardError({ stderr }: IO, name?: string): Log {
  const start = name === undefined ? '' : `${name}: `
  const line = (level: string) => (message: string) =>
    void stderr.write(`${new Date().toISOString()} ${level} ${start}${message}\n`)
  return { info: line('info'), warn: line('warn'), error: line('error') }
}

/** Milliseconds until a line is written again. */
const WRITE_AGAIN_AFTER = 60_000

/** Returns a function that returns true for lines that differ only in numbers once in a minute. */
export function createLineLimit(): (line: string) => boolean {
  const writtenAt = new Map<string, number>()
  return function mayWrite(line) {
    const kind = line.replace(/\d+/g, '')
    const now = performance.now()
    if (now - (writtenAt.get(kind) ?? Number.NEGATIVE_INFINITY) < WRITE_AGAIN_AFTER) return false
    // Errors of any text may come, so the map is not kept for good.
    if (writtenAt.size >= 100) writtenAt.clear()
    writtenAt.set(kind, now)
    return true
  }
}

/**
 * The logger of a client for `-v`. It writes each message as a line of the command to standard
 * error.
 */
export function createLogger(io: IO): Logger {
  const write = (message: string): void => warn(io, message)
  return { debug: write, info: write, warn: write, error: write }
}

/**
 * The configuration of a client that logs when it retries a request. It does not log the last
 * error, because that error ends the command, which prints it.
 */
export function requestLogging(io: IO): Pick<Config, 'logging'> {
  return { logging: { logger: { ...createLogger(io), error: () => undefined }, logLevel: 'WARN' } }
}
