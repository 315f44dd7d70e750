import { ValidationError } from '../core/errors.js'

/** Flags of Node with which others run in this process, look into it, or write down what it sends. */
const FLAGS =
  /^(-r|--require|--import|--(experimental-)?loader|--inspect(-brk|-wait)?|--trace-tls|--tls-keylog|--heapsnapshot-(signal|near-heap-limit)|--heap-prof|--report-on-.*|--(build-snapshot(-config)?|snapshot-blob)|--experimental-(default-)?config-file|--abort-on-uncaught-exception|--openssl-(shared-)?config)(=|$)/
/** Those of OpenSSL have it load engines and providers: others' code. */
const VARIABLES = [
  'NODE_DEBUG',
  'NODE_DEBUG_NATIVE',
  'OPENSSL_CONF',
  'OPENSSL_ENGINES',
  'OPENSSL_MODULES',
] as const
const UNCLEAR = 'NODE_OPTIONS that hold a backslash, a control character or an open quote'

/**
 * Refuses to go on in a process that holds secrets where Node was started so that they would be printed, written to a file or
 * seen by what is preloaded.
 */
export function refuseInstrumentation(
  env: Readonly<Record<string, string | undefined>>,
  execArgv: readonly string[],
): void {
  const words = wordsOf(env.NODE_OPTIONS ?? '')
  const [flag] = [...(words ?? []), ...execArgv]
    // Node takes one for the other.
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
 * The words of NODE_OPTIONS as Node splits them: spaces separate, and quotes join what stands beside them. Undefined where it
 * holds what Node may read otherwise, such as escapes.
 */
function wordsOf(text: string): readonly string[] | undefined {
  if (!/^(?:[^\\"\p{Cc}]|"[^\\"\p{Cc}]*")*$/u.test(text)) return undefined
  return (text.match(/(?:[^ "]|"[^"]*")+/g) ?? []).map(word => word.replaceAll('"', ''))
}
