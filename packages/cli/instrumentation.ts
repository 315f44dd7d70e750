import { url as inspectorURL } from 'node:inspector'
import { type Log, ValidationError } from 'sluice/core'
import type { IO } from './io.js'

/**
 * Flags of Node.js that run foreign code in this process, inspect the process, or record its data.
 */
const FLAGS =
  /^(-r|--require|--import|--(experimental-)?loader|--inspect(-brk|-wait)?|--trace-tls|--tls-keylog|--heapsnapshot-(signal|near-heap-limit)|--heap-prof|--report-on-.*|--(build-snapshot(-config)?|snapshot-blob)|--experimental-(default-)?config-file|--abort-on-uncaught-exception|--openssl-(shared-)?config)(=|$)/
/** Variables that show secrets, or that make OpenSSL or the dynamic linker load foreign code. */
const VARIABLES = [
  'NODE_DEBUG',
  'NODE_DEBUG_NATIVE',
  'NODE_V8_COVERAGE',
  'OPENSSL_CONF',
  'OPENSSL_ENGINES',
  'OPENSSL_MODULES',
  'LD_PRELOAD',
  'LD_AUDIT',
  'DYLD_INSERT_LIBRARIES',
] as const
const UNCLEAR = 'NODE_OPTIONS that hold a backslash, a control character or an open quote'

/**
 * Throws if instrumentation could reveal the secrets of this process, unless the user allows
 * instrumentation.
 */
export function protectSecrets(isAllowed: boolean | undefined, { env }: IO, log: Log): void {
  if (isAllowed) return
  rejectInstrumentation(env, process.execArgv)
  rejectInspector(log)
}

/**
 * Throws if Node.js was started with a flag or a variable that shows the secrets of this process.
 */
export function rejectInstrumentation(
  env: Readonly<Record<string, string | undefined>>,
  execArgv: readonly string[],
): void {
  const words = wordsOf(env.NODE_OPTIONS ?? '')
  const [flag] = [...(words ?? []), ...execArgv]
    // Node.js treats underscores and hyphens alike.
    .map(option => option.replaceAll('_', '-'))
    .filter(option => FLAGS.test(option))
    .map(option => option.split('=')[0])
  const unclear = words === undefined ? UNCLEAR : undefined
  const found = flag ?? unclear ?? VARIABLES.find(name => (env[name] ?? '') !== '')
  if (found === undefined) return
  throw new ValidationError(
    `Node was started with ${found}, so secrets could be seen outside the enclave: start it without, or say --allow-instrumentation`,
  )
}

/**
 * Ignores SIGUSR1. On this signal, Node.js would open its inspector, which can read everything in
 * this process and run code. Throws if an inspector is already open.
 */
function rejectInspector(log: Log): void {
  process.on('SIGUSR1', () => log.warn?.('SIGUSR1 is ignored: no inspector is opened here'))
  if (inspectorURL() !== undefined)
    throw new ValidationError(
      'an inspector is open in this process, so secrets could be seen outside it',
    )
}

/**
 * Splits NODE_OPTIONS at spaces outside quotes, as Node.js does. Returns undefined for text that
 * Node.js may split differently, such as text with escapes.
 */
function wordsOf(text: string): readonly string[] | undefined {
  if (!/^(?:[^\\"\p{Cc}]|"[^\\"\p{Cc}]*")*$/u.test(text)) return undefined
  return (text.match(/(?:[^ "]|"[^"]*")+/g) ?? []).map(word => word.replaceAll('"', ''))
}
