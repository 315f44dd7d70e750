import { type APIError, describeCall } from '../../client/contract/call.js'
import type { Handler, Plugin, Sink } from '../../client/contract/plugin.js'
import { asError, ValidationError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import {
  checkBoolean,
  checkFunction,
  optional,
  type Rule,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import { isPino, type LevelName, type Logger, levels, pinoLogger } from './loggers.js'

export {
  type LevelName,
  type Logger,
  type PinoLogger,
  pinoLogger,
  type WinstonLogger,
  winstonLogger,
} from './loggers.js'

/** The levels of the log. Each level includes the levels after it. `LogLevel[0]` is `'DEBUG'`. */
export const LogLevel: {
  /** Feed id validation, decoding steps, auth headers, requests and answers, origins of reports. */
  readonly DEBUG: 0
  /** Client initialization, successful calls, connections and their changes. */
  readonly INFO: 1
  /** Retries, reconnections, timeouts, invalid data. */
  readonly WARN: 2
  /**
   * Failures of authentication, network, decoding and requests; crashes of handlers and plugins.
   */
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
  /**
   * Failures of authentication, network, decoding and requests; crashes of handlers and plugins.
   */
  type ERROR = 3
}

/** Options of `logging`. */
export interface LoggingConfig {
  /**
   * Receives the lines. Without a logger, nothing is logged. A pino logger receives the facts
   * before the message, as pino expects.
   */
  logger?: Logger
  /** The lowest level that is logged, or its name. @default LogLevel.INFO */
  logLevel?: LogLevel | Uppercase<LevelName>
  /**
   * Whether to log WebSocket pings, pongs and connection states too, at level DEBUG. @default false
   */
  enableConnectionDebug?: boolean
}

const schema = {
  logger: optional(named(checkLogger)),
  logLevel: withDefault(LogLevel.INFO, named(checkLevel)),
  enableConnectionDebug: withDefault(false, named(checkBoolean)),
} satisfies Schema<LoggingConfig>

/**
 * Makes errors name the field as `logging.…`, since a client's options hold these options under
 * `logging`.
 */
function named<Value>(rule: Rule<Value>): Rule<Value> {
  return (field, value) => rule(`logging.${field}`, value)
}

function checkLogger(field: string, value: unknown): Logger {
  const logger = value as Logger | null
  const isObject = (typeof logger === 'object' || typeof logger === 'function') && logger !== null
  if (!isObject || levels.every(level => logger[level] === undefined))
    throw new ValidationError(`${field} must be an object with some of debug, info, warn and error`)
  for (const level of levels)
    if (logger[level] !== undefined) checkFunction(`${field}.${level}`, logger[level])
  return isPino(logger) ? pinoLogger(logger) : logger
}

function checkLevel(field: string, value: unknown): LogLevel {
  const level = typeof value === 'string' ? LogLevel[value as keyof typeof LogLevel] : value
  if (typeof level !== 'number' || LogLevel[level as LogLevel] === undefined)
    throw new ValidationError(`${field} must be one of LogLevel: 0, 1, 2, 3, or its name`)
  return level as LogLevel
}

/**
 * Writes the log of the core and the plugins to your logger. No line holds a secret, a signature, a
 * body or an Authorization value. A logger that throws does not affect the client.
 */
export function logging(options?: LoggingConfig): Plugin<never> {
  const { logger, logLevel, enableConnectionDebug } = readOptions('logging', options, schema)
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
function createListener(logger: Logger = {}, lowest: number): Listener {
  const listener: Listener = {}
  for (const level of levels.slice(lowest)) {
    if (logger[level] === undefined) continue
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
