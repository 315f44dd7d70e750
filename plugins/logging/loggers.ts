import { ValidationError } from '../../core/errors.js'

/** A logger with any of these functions, which get a message and an object of facts: console, pino, winston, … */
export interface Logger {
  /** Gets the lines of level `DEBUG`. */
  debug?(message: string, ...args: unknown[]): void
  /** Gets the lines of level `INFO`. */
  info?(message: string, ...args: unknown[]): void
  /** Gets the lines of level `WARN`. */
  warn?(message: string, ...args: unknown[]): void
  /** Gets the lines of level `ERROR`. */
  error?(message: string, ...args: unknown[]): void
}

/** The levels of a logger, the lowest first. */
export const levels = ['debug', 'info', 'warn', 'error'] as const
/** The name of a level of a logger. */
export type LevelName = (typeof levels)[number]

/** The part of a pino logger that is used: its levels, which get the facts first. */
export type PinoLogger = {
  readonly [Level in LevelName]?: (facts: object, message?: string) => void
}

/** The property of every pino logger, and of its children, that pino publishes as `pino.symbols.serializersSym`. */
const serializers = Symbol.for('pino.serializers')

/** True for a logger that pino has made. */
export function isPino(logger: object): logger is PinoLogger {
  return serializers in logger
}

/**
 * A logger that writes to pino: the facts of a line become fields of its entry. `logging` does so by itself with a pino logger;
 * this function also takes another library's logger that wants the facts first.
 *
 * @example
 * ```ts
 * const client = createClient({ ...config, logging: { logger: pinoLogger(pino()) } })
 * ```
 */
export function pinoLogger(pino: PinoLogger): Logger {
  const logger: Logger = {}
  for (const level of levels) {
    if (typeof pino?.[level] !== 'function') continue
    // pino replaces its functions when its level changes, so each is looked up when it is called.
    logger[level] = function write(message, facts) {
      pino[level]?.((facts as object | undefined) ?? {}, message)
    }
  }
  if (Object.keys(logger).length === 0)
    throw new ValidationError(
      'pino must be a logger with some of debug, info, warn and error: give what pino() returns',
    )
  return logger
}

/** The part of a winston logger that is used: the names of its levels, and the function that takes a whole entry. */
export interface WinstonLogger {
  /** The levels of the logger, by name. */
  readonly levels: object
  /** Writes an entry, whose further members are facts. */
  log(entry: { level: string; message: string }): unknown
}

/**
 * A logger that writes to winston: the facts of a line become members of winston's entry. `warn` is written as `warning` where
 * the levels are those of syslog; a level that the logger lacks is left out.
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
