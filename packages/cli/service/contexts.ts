import { dirname, join, resolve } from 'node:path'
import { adviseName, ValidationError } from 'sluice/core'
import { checkURL, codeOf, writeWhole } from 'sluice/internal'
import { given, type Values } from '../command.js'
import { fileError, makeFolder, parseJSON, readText } from '../input/files.js'

/**
 * The options of a service that a context keeps. They name files, and hold no secret: a file of
 * `--env-file` has one owner and one place, and a copy of its secrets would be one more to rotate.
 */
export const contextOptions = {
  mainnet: { help: 'ask the mainnet', excludes: ['testnet', 'endpoint', 'wsEndpoint'] },
  testnet: { help: 'ask the testnet, which is the default', excludes: ['endpoint', 'wsEndpoint'] },
  endpoint: { is: 'url', help: 'ask the service at this URL (default: REST_URL)' },
  wsEndpoint: {
    is: 'url',
    help: 'stream from this URL, or from several, separated by commas (default: WS_URL)',
  },
  envFile: { is: 'file', help: 'read variables that the environment lacks from this file' },
  proxy: { is: 'url', help: 'go through this proxy; env for that of HTTPS_PROXY and the like' },
  ca: { is: 'file', help: 'trust only the authorities of this file, in PEM' },
  cert: { is: 'file', help: 'show this client certificate, in PEM' },
  key: { is: 'file', help: 'its private key, in PEM; TLS_PASSPHRASE decrypts it' },
} as const

/** The option that names a context. */
export const contextOption = {
  context: { value: 'name', help: 'use this context, which sluice context add has made' },
} as const

/** The settings of a context, as the options of a command. */
export type ServiceContext = Values<typeof contextOptions>

const switches: readonly string[] = ['mainnet', 'testnet']
const files = ['envFile', 'ca', 'cert', 'key'] as const
const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/i
type Env = Readonly<Record<string, string | undefined>>

/** A context, and its name. */
export interface NamedContext {
  readonly name: string
  readonly context: ServiceContext
}

/** The contexts of a user: named settings of services, in a file that only the user can read. */
export class Contexts {
  /** The file; undefined if the environment names no folder for it. */
  readonly path: string | undefined
  readonly #contexts: Map<string, ServiceContext>
  #current: string | undefined

  private constructor(path: string | undefined, { current, contexts }: Stored) {
    this.path = path
    this.#current = current
    this.#contexts = new Map(Object.entries(contexts))
  }

  /** Reads the file. A file that does not exist holds no contexts. */
  static read(env: Env): Contexts {
    const path = pathIn(env)
    return new Contexts(path, path === undefined ? { contexts: {} } : readStored(path))
  }

  /** The name of the context in use, if no option and no variable names another. */
  get current(): string | undefined {
    return this.#current
  }

  list(): readonly NamedContext[] {
    return [...this.#contexts].map(([name, context]) => ({ name, context }))
  }

  /** Finds a context. Throws if it does not exist; the error begins with `what`. */
  get(what: string, name: string): NamedContext {
    const context = this.#contexts.get(name)
    if (context !== undefined) return { name, context }
    const advice = adviseName(name, [...this.#contexts.keys()])
    throw new ValidationError(`${what} ${JSON.stringify(name.slice(0, 64))} is unknown; ${advice}`)
  }

  /** Adds a context. Its files become absolute paths, so that it works from every folder. */
  async add(name: string, context: ServiceContext): Promise<void> {
    if (!NAME.test(name))
      throw new ValidationError(
        'the name of a context must have letters, digits, dots and dashes, 64 at most',
      )
    if (this.#contexts.has(name))
      throw new ValidationError(`context ${name} exists: sluice context rm ${name} removes it`)
    this.#contexts.set(name, absolute(checkContext(context)))
    await this.#write()
  }

  /** Has commands use a context, or none. */
  async use(name: string | undefined): Promise<void> {
    this.#current = name === undefined ? undefined : this.get('context', name).name
    await this.#write()
  }

  async remove(name: string): Promise<void> {
    this.#contexts.delete(this.get('context', name).name)
    if (this.#current === name) this.#current = undefined
    await this.#write()
  }

  async #write(): Promise<void> {
    const { path } = this
    if (path === undefined)
      throw new ValidationError('HOME or XDG_CONFIG_HOME must be set: contexts are kept there')
    const stored = {
      ...given({ current: this.#current }),
      contexts: Object.fromEntries(this.#contexts),
    }
    try {
      await makeFolder(dirname(path), 0o700)
      await writeWhole(path, `${JSON.stringify(stored, undefined, 2)}\n`)
    } catch (cause) {
      throw fileError('contexts', path, cause, 'written to')
    }
  }
}

/**
 * Finds the context that a command uses: that of `--context`, or else of SLUICE_CONTEXT, or else
 * the current one.
 */
export function findContext(name: string | undefined, env: Env): NamedContext | undefined {
  const contexts = Contexts.read(env)
  if (name !== undefined) return contexts.get('--context', name)
  if (env.SLUICE_CONTEXT) return contexts.get('SLUICE_CONTEXT', env.SLUICE_CONTEXT)
  const { current } = contexts
  return current === undefined ? undefined : contexts.get('the current context', current)
}

interface Stored {
  readonly current?: string
  readonly contexts: Readonly<Record<string, ServiceContext>>
}

function pathIn(env: Env): string | undefined {
  const config =
    env.XDG_CONFIG_HOME ||
    (process.platform === 'win32' ? env.APPDATA : env.HOME && join(env.HOME, '.config'))
  return config ? join(config, 'sluice', 'contexts.json') : undefined
}

function readStored(path: string): Stored {
  let text: string
  try {
    text = readText('contexts', path)
  } catch (thrown) {
    const isAbsent = ['ENOENT', 'ENOTDIR'].includes(String(codeOf((thrown as Error).cause)))
    if (isAbsent) return { contexts: {} }
    throw thrown
  }
  const stored = parseJSON(path, text) as Partial<Stored> | null
  const { current, contexts } = stored ?? {}
  const isRight =
    (current === undefined || typeof current === 'string') &&
    typeof contexts === 'object' &&
    Object.values(contexts ?? {}).every(isContext)
  if (!isRight)
    throw new ValidationError(`${path} must hold contexts: remove it, and add them again`)
  return stored as Stored
}

function isContext(value: unknown): boolean {
  return (
    typeof value === 'object' &&
    Object.entries(value ?? {}).every(
      ([name, each]) =>
        Object.hasOwn(contextOptions, name) &&
        typeof each === (switches.includes(name) ? 'boolean' : 'string'),
    )
  )
}

/** Rejects URLs that hold a secret, or that no client takes. */
function checkContext(context: ServiceContext): ServiceContext {
  const { endpoint, wsEndpoint, proxy } = context
  if (endpoint !== undefined) checkURL('--endpoint', endpoint, ['http:', 'https:'])
  for (const url of wsEndpoint?.split(',') ?? [])
    checkURL('--ws-endpoint', url.trim(), ['ws:', 'wss:'])
  if (proxy?.includes('@'))
    throw new ValidationError(
      '--proxy must have no password: set HTTPS_PROXY, and give --proxy env',
    )
  if ((endpoint === undefined) !== (wsEndpoint === undefined))
    throw new ValidationError('--endpoint and --ws-endpoint must be given together')
  return context
}

function absolute(context: ServiceContext): ServiceContext {
  const paths = files.map(name => [name, context[name] && resolve(context[name])])
  return { ...context, ...given(Object.fromEntries(paths)) }
}
