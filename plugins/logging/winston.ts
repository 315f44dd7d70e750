import { ValidationError } from '../../core/errors.js'
import { type Logger, levels } from './logger.js'

/** What is used of a winston logger: the names of its levels, and the function that takes a whole entry. */
export interface WinstonLogger {
  /** The levels of the logger, by name. */
  readonly levels: object
  /** Writes an entry, whose further members are facts. */
  log(entry: { level: string; message: string }): unknown
}

/**
 * A logger that writes to winston: the facts of a line become members of winston's entry. `warn` is written as `warning` where
 * the levels are those of syslog; a level that the logger has not is left out.
 *
 * @example
 * ```ts
 * const client = createClient({ ...config, logging: { logger: winstonLogger(winston.createLogger(options)) } })
 * ```
 */
export function winstonLogger(winston: WinstonLogger): Logger {
  const known = winston?.levels
  if (typeof winston?.log !== 'function' || typeof known !== 'object' || known === null)
    throw new ValidationError(
      'winston must be a logger with log and levels: give what createLogger() returns',
    )
  const logger: Logger = {}
  for (const level of levels) {
    const name = level === 'warn' && !('warn' in known) ? 'warning' : level
    if (!(name in known)) continue
    // A whole entry: with a message apart, winston takes a percent sign in it for an argument's place, and drops the facts.
    logger[level] = function write(message, facts) {
      winston.log({ ...(facts as object | undefined), level: name, message })
    }
  }
  return logger
}
