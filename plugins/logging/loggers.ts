import { ValidationError } from '../../core/errors.js'

/**
 * A logger with any of these functions, such as console. Each function receives a message and an
 * object of facts.
 */
export interface Logger {
  /** Receives the lines of level `DEBUG`. */
  debug?(message: string, ...args: unknown[]): void
  /** Receives the lines of level `INFO`. */
  info?(message: string, ...args: unknown[]): void
  /** Receives the lines of level `WARN`. */
  warn?(message: string, ...args: unknown[]): void
  /** Receives the lines of level `ERROR`. */
  error?(message: string, ...args: unknown[]): void
}

/** The levels of a logger, lowest first. */
export const levels = ['debug', 'info', 'warn', 'error'] as const
/** The name of a level of a logger. */
export type LevelName = (typeof levels)[number]

/**
 * The part of a pino logger that is used: the functions of its levels. They take the facts before
 * the message.
 */
export type PinoLogger = {
  readonly [Level in LevelName]?: (facts: object, message?: string) => void
}

/**
 * The symbol of a property that every pino logger and its children have. pino publishes it as
 * `pino.symbols.serializersSym`.
 */
const serializers = Symbol.for('pino.serializers')

/** Returns true for a logger that pino has made. */
export function isPino(logger: object): logger is PinoLogger {
  return serializers in logger
}

/**
 * Makes a logger that writes to pino. The facts of a line become fields of pino's entry. `logging`
 * calls this function itself for a pino logger. The function also accepts loggers of other
 * libraries that take the facts first.
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
    // pino replaces its functions when its level changes, so look up the function at each call.
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

/**
 * The part of a winston logger that is used: the names of its levels, and the function that writes
 * an entry.
 */
export interface WinstonLogger {
  /** The levels of the logger, by name. */
  readonly levels: object
  /** Writes an entry. The entry may have further members, which are the facts. */
  log(entry: { level: string; message: string }): unknown
}

/**
 * Makes a logger that writes to winston. The facts of a line become members of winston's entry.
 * `warn` is written as `warning` if the logger has the syslog levels. Lines of a level that the
 * logger lacks are not written.
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
    // Pass a whole entry. If the message is a separate argument, winston reads a percent sign in it
    // as a placeholder, and drops the facts.
    logger[level] = function write(message, facts) {
      try {
        winston.log({ ...(facts as object | undefined), level: name, message })
      } catch {
        // winston throws if it can't write a fact, such as an object whose getter throws.
        winston.log({ level: name, message })
      }
    }
  }
  return logger
}
