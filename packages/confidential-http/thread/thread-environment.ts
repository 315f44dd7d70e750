import host from 'node:process'

/** Variables for proxies, certificates and the time zone. None of them loads code or prints. */
const VARIABLES: readonly string[] = [
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'],
  ...['NODE_EXTRA_CA_CERTS', 'NODE_USE_ENV_PROXY', 'NODE_USE_SYSTEM_CA'],
  ...['SSL_CERT_DIR', 'SSL_CERT_FILE', 'TZ'],
]

/** The corresponding flags. */
const FLAGS =
  /^--(dns-result-order|(no-)?network-family-autoselection(-attempt-timeout)?|tls-(min|max)-v1\.\d|use-system-ca)(=|$)/
/** Flags whose value may be the next argument. */
const FLAG_AND_VALUE = /^--(dns-result-order|network-family-autoselection-attempt-timeout)$/

/** The environment of a thread. */
export interface ThreadEnvironment {
  readonly env: NodeJS.ProcessEnv
  readonly execArgv: string[]
}

/**
 * Makes the environment of a thread that holds secrets, with the variables of the caller. It is not that of the process, where
 * `NODE_DEBUG` prints the bytes that the platform sends, and `NODE_OPTIONS` and flags preload modules that can read secrets.
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

/** True for Node's error about a flag that only a process can have. It applies to the threads of the process anyway. */
export function isRejectedFlag(thrown: unknown): boolean {
  return (thrown as { code?: unknown } | null)?.code === 'ERR_WORKER_INVALID_EXEC_ARGV'
}
