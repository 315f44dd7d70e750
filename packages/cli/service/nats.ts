import type { ConnectionOptions, NatsConnection } from '@nats-io/transport-node'
import { RelayLogError } from '@sluice/nats'
import { ValidationError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'
import { inGroup, type Values } from '../command.js'
import { loadPackage, readFile, warnOfOthers } from '../input/files.js'
import { type IO, unlessStopped } from '../io.js'
import { readTLS } from './service.js'

const natsOptions = {
  nats: { is: 'servers', help: 'the servers of NATS, separated by commas', required: true },
  creds: {
    is: 'file',
    help: 'the credentials of NATS; in place of NATS_USER and NATS_PASSWORD, or NATS_NKEY_SEED, of the environment',
    needs: ['nats'],
  },
  natsCa: {
    is: 'file',
    help: 'TLS to NATS: trust only the authorities of this file, in PEM',
    needs: ['nats'],
  },
  natsCert: {
    is: 'file',
    help: 'TLS to NATS: show this client certificate, in PEM',
    needs: ['natsKey'],
  },
  natsKey: { is: 'file', help: 'its private key, in PEM', needs: ['natsCert'] },
  stream: { is: 'logName', help: 'the stream; SLUICE by default', needs: ['nats'] },
  prefix: { is: 'subject', help: 'the start of its subjects; sluice by default', needs: ['nats'] },
} as const
/** The options of a connection to NATS, and the options that name a relay's log. */
export const logOptions: typeof natsOptions = inGroup('The log of a relay', natsOptions)
export type LogOptions = Values<typeof logOptions>

/** The user of a connection to NATS. */
interface User {
  readonly settings: ConnectionOptions
  /** What the user is read from, for messages. */
  readonly from: string
}

/** The least milliseconds from one attempt to reach a server to the next. */
const RECONNECT_WAIT = 1000
/** The most milliseconds that are added at random, so that processes don't return all at once. */
const RECONNECT_JITTER = 1000
/**
 * How many servers may be tried besides the given ones until a connection opens. Each server names
 * the others of its cluster, and the library would try those without end.
 */
const MAX_NAMED_SERVERS = 8

/** The servers of `--nats`. */
export function serversOf({ nats }: Pick<LogOptions, 'nats'>): readonly string[] {
  return nats.split(',').map(server => server.trim())
}

/**
 * Connects to NATS, as the user of `--creds` or of the environment. Fails if no server accepts the
 * user, or when the signal aborts. A lost connection is retried without limit, unless `reconnect`
 * is false.
 */
export async function connectNats(
  options: LogOptions,
  { env, signal, stderr }: Pick<IO, 'env' | 'signal'> & Partial<Pick<IO, 'stderr'>>,
  reconnect = true,
): Promise<NatsConnection> {
  const { natsCa, natsCert, natsKey } = options
  const servers = [...serversOf(options)]
  const library = await loadPackage(
    '--nats',
    '@nats-io/transport-node @nats-io/jetstream @nats-io/kv',
    () => import('@nats-io/transport-node'),
  )
  const tls = readTLS({ ca: natsCa, cert: natsCert, key: natsKey }, '--nats-', stderr)
  if (options.creds !== undefined) warnOfOthers(stderr, '--creds', options.creds)
  const user = findUser(options, env, library)
  const settings = {
    servers,
    ...user?.settings,
    // The types of NATS allow only strings, but Node.js accepts bytes too.
    ...(tls === undefined ? {} : { tls: tls as object }),
  }
  let isOpen = false
  let attempts = 0

  /** The milliseconds between two attempts to reach a server. The library asks before each. */
  function reconnectDelayHandler(): number {
    if (!isOpen) {
      if (signal.aborted || ++attempts > servers.length + MAX_NAMED_SERVERS) throw new GivenUp()
      return 0
    }
    return RECONNECT_WAIT + RECONNECT_JITTER * Math.random()
  }

  async function open(): Promise<NatsConnection> {
    if (!reconnect) return library.connect({ ...settings, reconnect })
    // A user whose password is changed may be known again later.
    const retried = { maxReconnectAttempts: -1, ignoreAuthErrorAbort: true, reconnectDelayHandler }
    try {
      const connection = await library.connect({ ...settings, ...retried })
      isOpen = true
      return connection
    } catch (thrown) {
      if (!(thrown instanceof GivenUp) || signal.aborted) throw thrown
      // One more attempt has the reason.
      return library.connect({ ...settings, reconnect: false, ignoreClusterUpdates: true })
    }
  }

  const opening = open()
  try {
    return await unlessStopped({ signal }, opening)
  } catch (thrown) {
    if (signal.aborted) {
      opening.then(
        connection => connection.close(),
        () => undefined,
      )
      throw thrown
    }
    const cause = foreignCause(thrown)
    const { message } = cause
    const advice = thrown instanceof library.AuthorizationError ? `: check ${whereOf(user)}` : ''
    throw new RelayLogError(`no connection to NATS at ${servers.join(', ')}: ${message}${advice}`, {
      cause,
      isRetryable: true,
    })
  }
}

/** No server has accepted the connection. */
class GivenUp extends Error {}

function whereOf(user: User | undefined): string {
  return user?.from ?? 'whether --creds, NATS_USER or NATS_NKEY_SEED must be given'
}

/**
 * Finds the user of `--creds` or of the environment; undefined if there is none. No option takes a
 * password or a seed, because others can see the arguments of a process.
 */
function findUser(
  { creds }: LogOptions,
  env: IO['env'],
  library: typeof import('@nats-io/transport-node'),
): User | undefined {
  // An empty variable is one that is not set, as in a compose file.
  const [user, pass] = [env.NATS_USER || undefined, env.NATS_PASSWORD || undefined]
  const seed = env.NATS_NKEY_SEED || undefined
  const ways = [creds && '--creds', (user ?? pass) && 'NATS_USER', seed && 'NATS_NKEY_SEED']
  const [one, other] = ways.filter(Boolean)
  if (other !== undefined)
    throw new ValidationError(`${one} and ${other} each name a user of NATS: give one of them`)
  if (creds !== undefined) {
    const authenticator = library.credsAuthenticator(readFile('--creds', creds))
    return { settings: { authenticator }, from: '--creds' }
  }
  if (seed !== undefined) return { settings: readSeed(seed, library), from: 'NATS_NKEY_SEED' }
  if (user === undefined && pass === undefined) return undefined
  if (user === undefined || pass === undefined)
    throw new ValidationError('NATS_USER and NATS_PASSWORD must both be set')
  return { settings: { user, pass }, from: 'NATS_USER and NATS_PASSWORD' }
}

function readSeed(
  seed: string,
  { nkeys, nkeyAuthenticator }: typeof import('@nats-io/transport-node'),
): ConnectionOptions {
  const bytes = new TextEncoder().encode(seed.trim())
  try {
    // `U` begins the public key of a user.
    if (nkeys.fromSeed(bytes).getPublicKey().startsWith('U'))
      return { authenticator: nkeyAuthenticator(bytes) }
  } catch {
    // The error of the library could have a part of the seed.
  }
  throw new ValidationError('NATS_NKEY_SEED must be the seed of a user, which begins with SU')
}
