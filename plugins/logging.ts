import { describeCall } from '../client/call.js'
import type { Handler, Plugin, Sink } from '../client/plugin.js'
import { asError, ValidationError } from '../core/errors.js'
import type { Log, LogFunction } from '../core/log.js'
import { checkBoolean, checkFunction } from '../core/options.js'

/** How much is logged: each level includes those above it. `LogLevel[0]` is `'DEBUG'`. */
export const LogLevel: {
  readonly DEBUG: 0
  readonly INFO: 1
  readonly WARN: 2
  readonly ERROR: 3
  readonly 0: 'DEBUG'
  readonly 1: 'INFO'
  readonly 2: 'WARN'
  readonly 3: 'ERROR'
} = Object.freeze({
  /** Feed id validation, decoding steps, auth headers, requests and answers, origins of reports. */
  DEBUG: 0,
  /** Client initialization, successful calls, connections and their changes. */
  INFO: 1,
  /** Retries, reconnections, timeouts, invalid data. */
  WARN: 2,
  /** Failed authentication, network, decoding and requests; crashes of handlers and plugins. */
  ERROR: 3,
  0: 'DEBUG',
  1: 'INFO',
  2: 'WARN',
  3: 'ERROR',
})
/** How much is logged. */
export type LogLevel = 0 | 1 | 2 | 3
export declare namespace LogLevel {
  type DEBUG = 0
  type INFO = 1
  type WARN = 2
  type ERROR = 3
}

/** Whatever has some of these functions, called with a message and an object of facts: console, pino, winston, … */
export interface Logger {
  debug?(message: string, ...args: unknown[]): void
  info?(message: string, ...args: unknown[]): void
  warn?(message: string, ...args: unknown[]): void
  error?(message: string, ...args: unknown[]): void
}

/** Options of `logging`. */
export interface LoggingConfig {
  /** Where the lines go; without one, nothing is logged. */
  logger?: Logger
  /** The lowest level that is logged, or its name. @default LogLevel.INFO */
  logLevel?: LogLevel | Uppercase<(typeof levels)[number]>
  /** Log WebSocket pings, pongs and connection states too, with DEBUG. @default false */
  enableConnectionDebug?: boolean
}

const levels = ['debug', 'info', 'warn', 'error'] as const

/**
 * Writes what the core and the plugins do to a logger of yours. No line holds a secret, a signature, a body or an
 * Authorization value, and a logger that throws changes nothing.
 */
export function logging(options: LoggingConfig = {}): Plugin<never> {
  if (typeof options !== 'object' || options === null)
    throw new ValidationError('logging must be an object')
  const { logger, logLevel: given = LogLevel.INFO, enableConnectionDebug = false } = options
  const logLevel = typeof given === 'string' ? LogLevel[given] : given
  if (typeof logLevel !== 'number' || LogLevel[logLevel] === undefined)
    throw new ValidationError('logging.logLevel must be one of LogLevel: 0, 1, 2, 3, or its name')
  checkBoolean('logging.enableConnectionDebug', enableConnectionDebug)
  if (
    logger !== undefined &&
    ((typeof logger !== 'object' && typeof logger !== 'function') || logger === null)
  ) {
    throw new ValidationError(
      'logging.logger must be an object with some of debug, info, warn and error',
    )
  }
  const listener: { -readonly [Level in keyof Log]: Log[Level] } = {}
  for (const level of levels) {
    if (logger?.[level] === undefined) continue
    checkFunction(`logging.logger.${level}`, logger[level])
    if (levels.indexOf(level) >= logLevel) listener[level] = writer(logger, level)
  }
  if (enableConnectionDebug && listener.debug !== undefined) listener.connection = listener.debug

  function logAttempts(next: Handler): Handler {
    return async function logAttempt(call) {
      const { log } = call.scope
      log.debug?.(`→ ${describeCall(call)}`, { operation: call.operation, originID: call.originID })
      try {
        const reply = await next(call)
        if (reply.kind === 'request')
          log.debug?.(`← ${reply.status}, ${reply.body.byteLength} bytes`, {
            operation: call.operation,
          })
        return reply
      } catch (thrown) {
        const write = call.kind === 'stream' && !call.signal.aborted ? log.error : log.debug
        write?.(`attempt of ${call.operation} failed: ${asError(thrown).message}`, factsOf(thrown))
        throw thrown
      }
    }
  }

  function logReports(next: Sink, scope: { readonly log: Log }): Sink {
    if (scope.log.debug === undefined) return next
    return function logReport(report) {
      scope.log.debug?.(
        `report of feed ${report.feedID} at ${report.observationsTimestamp} from ${report.origin}`,
      )
      next(report)
    }
  }

  return {
    name: 'logging',
    setup: scope => scope.listen(listener),
    attempt: logAttempts,
    report: logReports,
  }
}

function writer(logger: Logger, level: (typeof levels)[number]): LogFunction {
  return function write(message, facts) {
    return facts === undefined ? logger[level]?.(message) : logger[level]?.(message, facts)
  }
}

function factsOf(thrown: unknown): Record<string, unknown> {
  const { name, code, statusCode } = thrown as {
    name?: unknown
    code?: unknown
    statusCode?: unknown
  }
  return { name, code, statusCode }
}
