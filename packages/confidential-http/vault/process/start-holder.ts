import { existsSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join, resolve } from 'node:path'
import { setImmediate as nextTick } from 'node:timers/promises'
import {
  checkText,
  isStreamsError,
  type Log,
  optional,
  readOptions,
  type Schema,
  unchecked,
  withDefault,
} from 'sluice/core'
import {
  Admission,
  asyncDispose,
  type BoxKeys,
  boxKeys,
  checkName,
  createKeys,
  createPermissions,
  formatKey,
  Health,
  type Measure,
  type PermissionOptions,
  parseKey,
  permissionRules,
  type Severity,
  shown,
  shownKey,
} from 'sluice/internal'
import { type SecretName, VaultError } from 'sluice/plugins/confidential-http'
import { type OpenAuditLog, openAuditLog, watchRecords } from '../../audit/audit-log.js'
import { readKeyFile, writeKeyFile } from '../../key-file.js'
import { forRemote } from '../../outcome.js'
import {
  type Connections,
  type ListenOptions,
  listenRules,
  readRequest,
  startServer,
} from '../../remote/http-server.js'
import { overloaded, Rejection } from '../../remote/protocol.js'
import { ACTS_FILE } from '../act-log.js'
import { makeFolder, VaultFolder } from '../files.js'
import { expireShares, Holder, type HolderProblems } from './holder.js'
import { checkTrust, HolderFiles, type HolderTrust, TRUST_FILE } from './holder-files.js'
import {
  HOLDER_PATH,
  type HolderRequest,
  MAX_REQUEST_BYTES,
  openHolderRequest,
  sealHolderAnswer,
} from './protocol.js'

/** Options of `startVaultHolder`. */
export interface VaultHolderOptions extends PermissionOptions, ListenOptions {
  /**
   * The holder's own directory, with its key, its share and the keys that it trusts. The directory
   * is made if it does not exist.
   */
  readonly directory: string
  /**
   * The keys that a new holder trusts, written to its file `holder.json`. If the file exists, it
   * counts, and the log warns of what differs. @default what the file holds
   */
  readonly trust?: Partial<HolderTrust>
  /** Receives the holder's log. No line contains a secret. */
  readonly log?: Log
}

const schema = {
  ...permissionRules,
  directory: (field, value) => resolve(checkText(field, value)),
  trust: optional(unchecked<Partial<HolderTrust>>),
  ...listenRules,
  log: withDefault({}, unchecked<Log>),
} satisfies Schema<VaultHolderOptions>

/** A running holder. */
export interface RunningVaultHolder extends AsyncDisposable {
  /** Callers send their requests to this URL: `http://HOST:PORT`. */
  readonly url: string
  /** The holder's public key: 64 hexadecimal digits. */
  readonly publicKey: string
  /** What is wrong with the holder at present, and its numbers. */
  readonly health: Health<HolderCause>
  /** Closes every connection, and stops the server. */
  close(): Promise<void>
}

/** A cause of a holder. */
export type HolderCause = keyof HolderProblems | 'audit-failing' | 'overloaded'

const causes: Readonly<Record<HolderCause, Severity>> = {
  /** The file of trusted keys can't be read. */
  'files-unreadable': 'unready',
  /** The holder has seen no manifest yet. */
  'no-manifest': 'unready',
  /** The shares in use have expired. */
  'shares-expired': 'unready',
  /** The holder has no share of the generation in use. */
  'share-missing': 'unready',
  /** The record of what is released can't be written, so nothing is released. */
  'audit-failing': 'unready',
  /** The holder has rejected requests in the last seconds, because it had too many. */
  overloaded: 'warning',
}

/** Milliseconds for which a rejection because of load is a problem. */
const OVERLOADED_FOR = 10_000
const KEY_FILE = 'holder.key'
/** Milliseconds between two checks for expired shares. */
const EXPIRY_INTERVAL = 600_000

/**
 * Runs a holder of a vault. The holder has one share of the key, and releases its part of secrets
 * to the callers that it trusts.
 *
 * @example
 * const holder = await startVaultHolder({ directory: './holder-0', port: 7500 })
 */
export async function startVaultHolder(given: VaultHolderOptions): Promise<RunningVaultHolder> {
  const { directory, trust, port, host, log, insecurePermissions } = readOptions(
    'startVaultHolder',
    given,
    schema,
  )
  const permissions = createPermissions({ insecurePermissions })
  await makeFolder(directory)
  permissions.checkFolder(directory, ['shares'])
  const keyFile = join(directory, KEY_FILE)
  if (!existsSync(keyFile)) writeKeyFile(keyFile, createKeys().secretKey)
  const keys = boxKeys(parseKey('key', readKeyFile(keyFile, { insecurePermissions })))
  const files = new HolderFiles(new VaultFolder(directory, permissions))
  if (trust !== undefined) {
    const wanted = checkTrust(trust)
    if (!existsSync(join(directory, TRUST_FILE))) await files.writeTrust(wanted)
    else for (const line of await findOutdated(wanted, files)) log.warn?.(line)
  }
  const expire = (): Promise<void> =>
    expireShares(files).catch(error => log.error?.(`shares could not be deleted: ${error.message}`))
  await expire()
  const counts = new HolderCounts()
  const health: Health<HolderCause> = new Health({
    ...{ service: 'holder', causes, log },
    measures: counts.measures(() => holder.generation),
  })
  async function look(): Promise<void> {
    const found = await holder.findProblems()
    for (const cause of FOUND) health.set(cause, found[cause])
  }
  const holder = await Holder.open(files, keys, log, async () => {
    await look()
    return health.isReady
  })
  const opened = await openAuditLog({ file: join(directory, ACTS_FILE), insecurePermissions })
  const records = watchRecords(opened, health)
  const serving = { holder, keys, port, host, log, records, counts }
  const running = await serveHolder(serving).catch(async thrown => {
    await records.close()
    throw thrown
  })
  const timer = setInterval(expire, EXPIRY_INTERVAL)
  timer.unref()
  health.watch(() => {
    void look()
    const isOverloaded = performance.now() - counts.overloadedAt < OVERLOADED_FOR
    health.set('overloaded', isOverloaded ? 'requests were rejected with 503' : undefined)
  })
  const close = (): Promise<void> => {
    clearInterval(timer)
    health.end()
    return running.close()
  }
  return { ...running, health, close, [asyncDispose]: close }
}

/** The causes that a look at the files finds. */
const FOUND = ['files-unreadable', 'no-manifest', 'shares-expired', 'share-missing'] as const

/** Counts the answers of a holder. */
export class HolderCounts {
  /** When a request was last rejected because of load, in ms of `performance.now`. */
  overloadedAt: number = Number.NEGATIVE_INFINITY
  /** Answers to opened requests, by the outcome: `ok`, or the code of the error. */
  readonly #answers = new Map<string, number>()
  #rejected = 0

  answered(outcome: string): void {
    this.#answers.set(outcome, (this.#answers.get(outcome) ?? 0) + 1)
  }

  /** A request was rejected before it was opened, with this HTTP status. */
  rejected(status: number): void {
    this.#rejected++
    if (status === 503) this.overloadedAt = performance.now()
  }

  measures(generation: () => number | undefined): readonly Measure[] {
    return [
      {
        ...{ name: 'sluice.holder.answers', kind: 'counter', unit: '{answer}' },
        description: 'Answers to requests that the holder could open, by outcome: ok, or a code',
        attribute: 'sluice.outcome',
        read: () => this.#answers,
      },
      {
        ...{ name: 'sluice.holder.rejected', kind: 'counter', unit: '{request}' },
        description: 'Requests that the holder rejected without opening them',
        read: () => this.#rejected,
      },
      {
        ...{ name: 'sluice.holder.generation', kind: 'gauge', unit: '{generation}' },
        description: 'The number of the shares in use',
        read: generation,
      },
    ]
  }
}

/**
 * Describes what of the given trust has no effect. After a key was replaced, a supervisor still
 * starts the holder with the line of before, and the vault needs the holder.
 */
async function findOutdated(given: HolderTrust, files: HolderFiles): Promise<readonly string[]> {
  const known = await files.readTrust()
  const { revoked = [] } = (await files.readManifest()) ?? {}
  const found: string[] = []
  const add = (field: string, value: string, why: string, says: string): void =>
    void found.push(`${field}: ${value} is ${why}, and ${TRUST_FILE} has ${says}`)
  if (given.writer !== known.writer)
    add('writer', shownKey(given.writer), 'ignored', shownKey(known.writer))
  for (const field of ['callers', 'peers'] as const)
    for (const key of given[field]) {
      const isRevoked = revoked.includes(key)
      if (known[field].includes(key) && !isRevoked) continue
      const says = known[field].map(shownKey).join(', ') || 'none'
      add(field, shownKey(key), isRevoked ? 'revoked' : 'ignored', says)
    }
  const { minThreshold = 0 } = known
  if ((given.minThreshold ?? 0) > minThreshold)
    add('minThreshold', `${given.minThreshold}`, 'ignored', `${minThreshold || 'none'}`)
  return found
}

/** A holder to serve, and the address to serve it at. */
export interface HolderServing {
  readonly holder: Pick<Holder, 'answer' | 'callers'>
  readonly keys: BoxKeys
  readonly host: string
  readonly port: number
  readonly log: Log
  /**
   * The holder records here the secrets and responses that it releases, and its part in resharings.
   */
  readonly records: OpenAuditLog
  readonly counts: HolderCounts
}

/** Limits of connections. Only enclaves and the commands that change the vault ask a holder. */
const CONNECTIONS = { maxConnections: 256, maxConnectionsPerAddress: 256 }
/** A request with more bytes than this is long: it contains a manifest. */
const LONG = 1_048_576
/**
 * The most long requests of strangers that are read at a time, because they take memory. As many
 * more are read from addresses of callers.
 */
const MAX_LONG = 2
/** Milliseconds within which a long request of a stranger must arrive, once it is read. */
const LONG_TIMEOUT = 5000
/** The most characters of a request's kind, and of an error, in a line of the log. */
const MAX_KIND = 20
const MAX_MESSAGE = 300
/** The most characters of an order in a record. The identifier of the order comes first. */
const MAX_ORDER = 80

/** Serves the answers of a holder over HTTP. */
export async function serveHolder(
  serving: HolderServing,
): Promise<Omit<RunningVaultHolder, 'health'>> {
  const { holder, keys, host, port, log, records, counts } = serving
  const longOfCallers = new Admission(MAX_LONG, overloaded)
  const longOfStrangers = new Admission(MAX_LONG, overloaded)

  function refuse(response: ServerResponse, status: number): void {
    counts.rejected(status)
    reject(response, status)
  }

  async function serve(
    request: IncomingMessage,
    response: ServerResponse,
    connections: Connections,
  ): Promise<void> {
    if (request.method !== 'POST' || request.url !== HOLDER_PATH) return refuse(response, 404)
    const length = Number(request.headers['content-length'] ?? MAX_REQUEST_BYTES + 1)
    if (!(length <= MAX_REQUEST_BYTES)) return refuse(response, 413)
    const gone = new AbortController()
    response.on('close', () => gone.abort())
    const sender = connections.senderOf(request.socket, gone.signal)
    const isKnown = sender.isKnown()
    const isLong = length > LONG
    let leave: (() => void) | undefined
    try {
      if (isLong) leave = await (isKnown ? longOfCallers : longOfStrangers).enter(sender)
      const timeout = isLong && !isKnown ? LONG_TIMEOUT : undefined
      const sealed = await readRequest(request, length, length, timeout)
      if (typeof sealed === 'number') return refuse(response, sealed)
      // If the process was busy for a while, many callers have disconnected. Their requests are
      // skipped.
      await nextTick()
      if (response.destroyed) return
      const callers = await holder.callers()
      const opened = openHolderRequest(sealed, keys, callers)
      if (opened === undefined) return refuse(response, 400)
      const isCaller = callers.includes(opened.asker)
      if (isCaller) sender.prove(opened.asker)
      else sender.disown()
      const answer = await answerWith(serving, opened.request, opened.asker, isCaller)
      response
        .writeHead(200, { 'content-type': 'application/octet-stream' })
        .end(sealHolderAnswer(answer, opened.replyTo, keys))
    } catch (thrown) {
      refuse(response, thrown instanceof Rejection ? thrown.status : 500)
    } finally {
      leave?.()
    }
  }

  const server = await startServer({ host, port }, CONNECTIONS, serve)

  async function close(): Promise<void> {
    await server.end()
    await records.close().catch(error => log.error?.(error.message))
    keys.secretKey.fill(0)
  }
  return {
    url: server.url,
    publicKey: formatKey(keys.publicKey),
    close,
    [asyncDispose]: close,
  }
}

async function answerWith(
  { holder, log, records, counts }: HolderServing,
  request: HolderRequest,
  asker: string,
  isCaller: boolean,
): Promise<object> {
  // Anybody may send a request, of any kind.
  const what = `${shown(request.kind, MAX_KIND)} of ${asker.slice(0, 8)}...`
  try {
    const answer = await holder.answer(request, asker)
    // An answer that can't be recorded is not sent.
    if (!('needs' in answer)) await record(records, request, asker, isCaller, answer)
    log.debug?.(`answered: ${what}`)
    counts.answered('ok')
    return { answer }
  } catch (thrown) {
    // The messages of other errors may quote a file.
    const error = isStreamsError(thrown) ? thrown : new VaultError('the holder failed')
    log.warn?.(`rejected: ${what}: ${shown(error.message, MAX_MESSAGE)}`)
    counts.answered(error.code)
    if (!isStreamsError(thrown, 'AUDIT'))
      await record(records, request, asker, isCaller, { code: error.code }).catch(() => undefined)
    return { failure: forRemote({ code: error.code, message: error.message }) }
  }
}

/**
 * Records the releases that a caller has asked for, and the holder's part in resharings. Releases
 * that strangers ask for are not recorded, so that strangers can't fill the disk.
 */
async function record(
  records: OpenAuditLog,
  { kind, name, order }: HolderRequest,
  asker: string,
  isCaller: boolean,
  { code, complaints = [] }: { readonly code?: unknown; readonly complaints?: unknown },
): Promise<void> {
  const outcome = code === undefined ? {} : { code }
  if (isCaller && (kind === 'release' || kind === 'response')) {
    const secret = kind === 'release' ? { secret: shownName(name) } : {}
    await records.append({ type: kind, caller: asker, ...secret, ...outcome })
  } else if ((kind === 'deal' || kind === 'accept') && code === undefined)
    await records.append({
      ...{ type: kind, order: String(order).slice(0, MAX_ORDER) },
      // With complaints, the holder has not done the step.
      ...(Array.isArray(complaints) && complaints.length > 0 ? { complaints } : {}),
    })
}

function shownName(name: unknown): string {
  try {
    const { owner, namespace, key } = checkName(name as SecretName)
    return `${owner}/${namespace}/${key}`
  } catch {
    return ''
  }
}

function reject(response: ServerResponse, status: number): void {
  if (response.headersSent || response.destroyed) return
  response.writeHead(status, { connection: 'close' }).end()
}
