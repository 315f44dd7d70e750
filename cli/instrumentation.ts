import { ValidationError } from '../core/errors.js'

/** Flags of Node with which others run in this process, look into it, or write down what it sends. */
const FLAGS =
  /^(-r|--require|--import|--(experimental-)?loader|--inspect(-brk|-wait)?|--trace-tls|--tls-keylog|--heapsnapshot-(signal|near-heap-limit)|--heap-prof|--report-on-.*|--abort-on-uncaught-exception)(=|$)/
const VARIABLES = ['NODE_DEBUG', 'NODE_DEBUG_NATIVE'] as const

/**
 * Refuses to go on in a process that holds secrets where Node was started so that they would be printed, written to a file or
 * seen by what is preloaded.
 */
export function refuseInstrumentation(
  env: Readonly<Record<string, string | undefined>>,
  execArgv: readonly string[],
): void {
  const options = [...(env.NODE_OPTIONS?.split(/[\s"]+/) ?? []), ...execArgv]
  const [flag] = options
    // Node takes one for the other.
    .map(option => option.replaceAll('_', '-'))
    .filter(option => FLAGS.test(option))
    .map(option => option.split('=')[0])
  const found = flag ?? VARIABLES.find(name => (env[name] ?? '') !== '')
  if (found === undefined) return
  throw new ValidationError(
    `Node was started with ${found}, so secrets could be seen outside the enclave: start it without, or say --allow-instrumentation`,
  )
}
