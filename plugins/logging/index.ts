import { type APIError, describeCall } from '../../client/contract/call.js'
import type { Handler, Plugin, Sink } from '../../client/contract/plugin.js'
import { asError, ValidationError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { checkBoolean, checkFunction, checkOptions, type OptionNames } from '../../core/options.js'
import { type LevelName, type Logger, levels } from './logger.js'
import { isPino, pinoLogger } from './pino.js'

export type { LevelName, Logger } from './logger.js'
export { type PinoLogger, pinoLogger } from './pino.js'
export { type WinstonLogger, winstonLogger } from './winston.js'

/** The levels of the log; each includes those after it. `LogLevel[0]` is `'DEBUG'`. */
export const LogLevel: {
  /** Feed id validation, decoding steps, auth headers, requests and answers, origins of reports. */
  readonly DEBUG: 0
  /** Client initialization, successful calls, connections and their changes. */
  readonly INFO: 1
  /** Retries, reconnections, timeouts, invalid data. */
  readonly WARN: 2
  /** Failed authentication, network, decoding and requests; crashes of handlers and plugins. */
  readonly ERROR: 3
  /** The name of `LogLevel.DEBUG`. */
  readonly 0: 'DEBUG'
  /** The name of `LogLevel.INFO`. */
  readonly 1: 'INFO'
  /** The name of `LogLevel.WARN`. */
  readonly 2: 'WARN'
  /** The name of `LogLevel.ERROR`. */
  readonly 3: 'ERROR'
} = Object.freeze({
  DEBUG: 0,
  INFO: 1,
  WARN: 2,
  ERROR: 3,
  0: 'DEBUG',
  1: 'INFO',
  2: 'WARN',
  3: 'ERROR',
})
/** The lowest level that is logged. */
export type LogLevel = 0 | 1 | 2 | 3
export declare namespace LogLevel {
  /** Feed id validation, decoding steps, requests and answers, origins of reports. */
  type DEBUG = 0
  /** Client initialization, successful calls, connections and their changes. */
  type INFO = 1
  /** Retries, reconnections, timeouts, invalid data. */
  type WARN = 2
  /** Failed authentication, network, decoding and requests; crashes of handlers and plugins. */
  type ERROR = 3
}

/** Options of `logging`. */
export interface LoggingConfig {
  /** Gets the lines; without one, nothing is logged. A pino logger gets the facts as it wants them, before the message. */
  logger?: Logger
  /** The lowest level that is logged, or its name. @default LogLevel.INFO */
  logLevel?: LogLevel | Uppercase<LevelName>
  /** Log WebSocket pings, pongs and connection states as well, at DEBUG. @default false */
  enableConnectionDebug?: boolean
}

const names: OptionNames<LoggingConfig> = {
  logger: true,
  logLevel: true,
  enableConnectionDebug: true,
}

/**
 * Writes the log of the core and the plugins to a logger of yours. No line holds a secret, a signature, a body or an
 * Authorization value, and a logger that throws changes nothing.
 */
export function logging(options: LoggingConfig = {}): Plugin<never> {
  const given = checkOptions('logging', options, names)
  const { logger, logLevel: level = LogLevel.INFO, enableConnectionDebug = false } = given
  const logLevel = typeof level === 'string' ? LogLevel[level] : level
  if (typeof logLevel !== 'number' || LogLevel[logLevel] === undefined)
    throw new ValidationError('logging.logLevel must be one of LogLevel: 0, 1, 2, 3, or its name')
  checkBoolean('logging.enableConnectionDebug', enableConnectionDebug)
  const listener = createListener(logger, logLevel)
  if (enableConnectionDebug && listener.debug !== undefined) listener.connection = listener.debug
  return {
    name: 'logging',
    setup: scope => scope.listen(listener),
    attempt: logAttempts,
    report: logReports,
  }
}

type Listener = { -readonly [Level in keyof Log]: Log[Level] }

/** Makes a listener that writes the levels from `lowest` on to the logger. */
function createListener(given: Logger | undefined, lowest: number): Listener {
  const listener: Listener = {}
  if (given === undefined) return listener
  const isObject = (typeof given === 'object' || typeof given === 'function') && given !== null
  if (!isObject || levels.every(level => given[level] === undefined))
    throw new ValidationError(
      'logging.logger must be an object with some of debug, info, warn and error',
    )
  const logger = isPino(given) ? pinoLogger(given) : given
  for (const [index, level] of levels.entries()) {
    if (logger[level] === undefined) continue
    checkFunction(`logging.logger.${level}`, logger[level])
    if (index < lowest) continue
    listener[level] = function write(message, facts) {
      return facts === undefined ? logger[level]?.(message) : logger[level]?.(message, facts)
    }
  }
  return listener
}

function logAttempts(next: Handler): Handler {
  return async function logAttempt(call) {
    const { operation, originID } = call
    const { log } = call.scope
    log.debug?.(`→ ${describeCall(call)}`, { operation, originID })
    try {
      const reply = await next(call)
      if (reply.kind === 'request')
        log.debug?.(`← ${reply.status}, ${reply.body.byteLength} bytes`, { operation })
      return reply
    } catch (thrown) {
      const write = call.kind === 'stream' && !call.signal.aborted ? log.error : log.debug
      const { name, code, statusCode } = (thrown ?? {}) as Partial<APIError>
      write?.(`attempt of ${operation} failed: ${asError(thrown).message}`, {
        errorName: name,
        code,
        statusCode,
      })
      throw thrown
    }
  }
}

function logReports(next: Sink, { log }: { readonly log: Log }): Sink {
  if (log.debug === undefined) return next
  return function logReport(report) {
    log.debug?.(
      `report of feed ${report.feedID} at ${report.observationsTimestamp} from ${report.origin}`,
    )
    next(report)
  }
}
