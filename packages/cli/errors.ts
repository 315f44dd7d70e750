import { rejectedFeeds } from 'sluice/client'
import { asError, type ErrorCode, isStreamsError } from 'sluice/core'
import { inOneLine } from './one-line.js'

const exitCodes: { readonly [Code in ErrorCode]?: number } = {
  VALIDATION: 2,
  AUTHENTICATION: 3,
  ENTITLEMENT: 3,
  API_STATUS: 4,
  API_TIMEOUT: 4,
  API_NETWORK: 4,
  API_RESPONSE: 4,
  WS_CONNECT: 4,
  WS_REFUSED: 4,
  WS_LOST: 4,
  WS_GAVE_UP: 4,
  PROXY: 4,
  RELAY_LOG: 4,
  DECODING: 5,
}

/**
 * The exit code for an error: 2 for wrong arguments, 3 if not authorised, 4 for the network, the
 * service or the log, 5 for an invalid report, 1 for any other error.
 */
export function exitCodeOf(thrown: unknown): number {
  if (listenProblem(thrown) !== undefined) return 2
  const reason = reasonOf(thrown)
  return isStreamsError(reason) ? (exitCodes[reason.code] ?? 1) : 1
}

/** The error that all connections of a stream have failed with, or the error itself. */
function reasonOf(thrown: unknown): unknown {
  if (!isStreamsError(thrown, 'ALL_CONNECTIONS_FAILED')) return thrown
  const { errors = [] } = thrown as { readonly errors?: readonly unknown[] }
  const [first, ...others] = errors
  const codeOf = (each: unknown): unknown => isStreamsError(each) && each.code
  const isOne = first !== undefined && others.every(each => codeOf(each) === codeOf(first))
  return isOne ? first : thrown
}

/** The reasons why a server can't listen, in words, by error code. */
const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'it is in use: choose another',
  EACCES: 'that needs more rights: choose a port from 1024 on',
  EADDRNOTAVAIL: 'this machine has no such address',
}

/** Says why a server can't listen; undefined for other errors. */
export function listenProblem(thrown: unknown): string | undefined {
  const {
    syscall,
    code = '',
    address,
    port,
  } = (thrown ?? {}) as NodeJS.ErrnoException & {
    readonly address?: string
    readonly port?: number
  }
  if (syscall !== 'listen') return undefined
  return `port ${port} of ${address} can’t be listened on: ${reasons[code] ?? code}`
}

/**
 * Says in a line why a service rejects a request or can’t be reached, and which command finds out;
 * undefined for other errors. The service gives no reason for a rejection.
 */
export function adviceOn(given: unknown): string | undefined {
  const thrown = reasonOf(given)
  if (!isStreamsError(thrown)) return undefined
  const { message } = thrown
  if (unreachable.has(thrown.code) && !/sluice doctor|--onchain/.test(message))
    return 'sluice doctor says why'
  // The feeds are what is wrong: the service accepts the credentials.
  if (rejectedFeeds(thrown).length > 0)
    return 'sluice feeds lists the feeds that the key may read, and sluice doctor says more'
  if (isStreamsError(thrown, 'ENTITLEMENT'))
    return 'the key or this machine’s address may be blocked, or the feed may not be for this key: sluice doctor says more'
  if (!isStreamsError(thrown, 'AUTHENTICATION')) return undefined
  return `the key, the secret or this machine’s clock may be wrong, or the key may be of the other network${thrown.feedIDs !== undefined ? ', or the feed may not be one that sluice feeds lists' : ''}: sluice doctor says which`
}

/** The codes of the errors after which the doctor finds out why a service can't be reached. */
const unreachable: ReadonlySet<ErrorCode> = new Set([
  'API_NETWORK',
  'API_TIMEOUT',
  'PROXY',
  'WS_CONNECT',
  'WS_GAVE_UP',
  'WS_LOST',
  'WS_REFUSED',
])

/** The lines that a command prints for an error that ends it. */
export function errorLines(thrown: unknown): readonly string[] {
  const advice = adviceOn(thrown)
  const line = inOneLine(listenProblem(thrown) ?? asError(thrown).message)
  return advice === undefined ? [line] : [line, advice]
}
