import type { Config } from 'sluice'
import type { Log } from 'sluice/core'
import type { Logger } from 'sluice/plugins/logging'
import { type IO, warn } from '../io.js'

/** A log on standard error, a line an event. */
export function standardError({ stderr }: IO): Log {
  const line = (level: string) => (message: string) =>
    void stderr.write(`${new Date().toISOString()} ${level} ${message}\n`)
  return { info: line('info'), warn: line('warn'), error: line('error') }
}

/** A logger of a client, as `-v` has it: the same lines. */
export function createLogger(io: IO): Logger {
  const write = (message: string): void => warn(io, message)
  return { debug: write, info: write, warn: write, error: write }
}

/** The configuration of a client that says when a request is tried again. The error of the last try ends the command, which prints it. */
export function requestLogging(io: IO): Pick<Config, 'logging'> {
  return { logging: { logger: { ...createLogger(io), error: () => undefined }, logLevel: 'WARN' } }
}
