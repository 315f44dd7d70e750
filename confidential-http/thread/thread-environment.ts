import host from 'node:process'

/** Variables that say how the platform reaches others and whom it trusts; none of them loads code or prints. */
const VARIABLES: readonly string[] = [
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'],
  ...['NODE_EXTRA_CA_CERTS', 'NODE_USE_ENV_PROXY', 'NODE_USE_SYSTEM_CA'],
  ...['SSL_CERT_DIR', 'SSL_CERT_FILE', 'TZ'],
]

/** Flags that do the same. */
const FLAGS =
  /^--(dns-result-order|(no-)?network-family-autoselection(-attempt-timeout)?|tls-(min|max)-v1\.\d|use-system-ca)(=|$)/
/** Those whose value may be the next argument. */
const FLAG_AND_VALUE = /^--(dns-result-order|network-family-autoselection-attempt-timeout)$/

/** What a thread is started with, apart from its program. */
export interface ThreadEnvironment {
  readonly env: NodeJS.ProcessEnv
  readonly execArgv: string[]
}

/**
 * The environment of a thread that holds secrets: not that of the process. `NODE_DEBUG` would print what the platform sends,
 * and what `NODE_OPTIONS` and the flags of the process preload could look on. `more` is what the caller adds.
 */
export function threadEnvironment(more: Readonly<Record<string, string>> = {}): ThreadEnvironment {
  const { env, execArgv } = host
  const given = [...(env.NODE_OPTIONS?.split(/\s+/) ?? []), ...execArgv]
  return {
    env: {
      ...Object.fromEntries(
        VARIABLES.flatMap(name => (env[name] === undefined ? [] : [[name, env[name]]])),
      ),
      ...more,
    },
    execArgv: given.filter(
      (flag, index) => FLAGS.test(flag) || FLAG_AND_VALUE.test(given[index - 1] ?? ''),
    ),
  }
}

/** What a flag says for the whole process in this version of Node is refused of a thread, and holds there anyway. */
export function isRefusedFlag(thrown: unknown): boolean {
  return (thrown as { code?: unknown } | null)?.code === 'ERR_WORKER_INVALID_EXEC_ARGV'
}
