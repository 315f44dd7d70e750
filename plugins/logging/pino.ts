import { ValidationError } from '../../core/errors.js'
import { type LevelName, type Logger, levels } from './logger.js'

/** What is used of a pino logger: its levels, which get the facts first. */
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
