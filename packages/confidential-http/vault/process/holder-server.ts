import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setImmediate as nextTick } from 'node:timers/promises'
import type { Log } from 'sluice/core'
import { isStreamsError } from 'sluice/core'
import type { BoxKeys } from 'sluice/internal'
import { asyncDispose, checkName, formatKey } from 'sluice/internal'
import { type SecretName, VaultError } from 'sluice/plugins/confidential-http'
import type { OpenAuditLog } from '../../audit/audit-log.js'
import { boundConnections } from './connections.js'
import type { Holder } from './holder.js'
import {
  MAX_REQUEST_BYTES,
  HOLDER_PATH,
  type HolderRequest,
  openHolderRequest,
  sealHolderAnswer,
} from './protocol.js'

/** A running holder. */
export interface RunningVaultHolder extends AsyncDisposable {
  /** The URL that it is asked at: `http://HOST:PORT`. */
  readonly url: string
  /** The holder's public key: 64 hexadecimal digits. */
  readonly publicKey: string
  /** Ends every connection, and the server. */
  close(): Promise<void>
}

/** What a server of a holder answers with, and where. */
export interface HolderServing {
  readonly holder: Holder
  /** The public keys of those who may have secrets released. */
  readonly readCallers: () => Promise<readonly string[]>
  readonly keys: BoxKeys
  readonly host: string
  readonly port: number
  readonly log: Log
  /** Where the holder records what it releases, and its part in resharings. */
  readonly records: OpenAuditLog
}

/** A holder is asked by enclaves and by who changes the vault. */
const MAX_CONNECTIONS = 256
/** A longer request has a manifest in it: few of these are read at once, because they take memory. */
const LONG = 1_048_576
const MAX_LONG = 2
/** Characters of an order in a record: its identifier comes first. */
const MAX_ORDER = 80
/** Milliseconds for a whole request to arrive. */
const REQUEST_TIMEOUT = 10_000

/** Serves what a holder answers. */
export async function serveHolder({
  holder,
  readCallers,
  keys,
  host,
  port,
  log,
  records,
}: HolderServing): Promise<RunningVaultHolder> {
  let long = 0

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== 'POST' || request.url !== HOLDER_PATH) return reject(response, 404)
    const length = Number(request.headers['content-length'] ?? MAX_REQUEST_BYTES + 1)
    if (!(length <= MAX_REQUEST_BYTES)) return reject(response, 413)
    const isLong = length > LONG
    if (isLong && long >= MAX_LONG) return reject(response, 503)
    if (isLong) long++
    try {
      const sealed = await buffer(request)
      // After a while without the processor, many of those who asked are gone: their requests are not worth its time.
      await nextTick()
      if (response.destroyed) return
      const callers = await readCallers()
      const opened = openHolderRequest(sealed, keys, callers)
      if (opened === undefined) return reject(response, 400)
      const { replyTo, asker } = opened
      if (callers.includes(asker)) prove(request.socket)
      const isCaller = callers.includes(asker)
      const answer = await answerWith(holder, opened, { log, records, isCaller })
      response
        .writeHead(200, { 'content-type': 'application/octet-stream' })
        .end(sealHolderAnswer(answer, replyTo, keys))
    } catch {
      reject(response, 500)
    } finally {
      if (isLong) long--
    }
  }

  const server = createServer(
    { requestTimeout: REQUEST_TIMEOUT, headersTimeout: 5000, connectionsCheckingInterval: 1000 },
    (request, response) => void serve(request, response),
  )
  const prove = boundConnections(server, MAX_CONNECTIONS)
  await new Promise<void>((done, fail) => {
    server.on('error', fail)
    server.listen(port, host, done)
  })
  const { address, family, port: bound } = server.address() as AddressInfo

  async function close(): Promise<void> {
    const closed = new Promise(done => server.close(done))
    server.closeAllConnections()
    await closed
    await records.close().catch(error => log.error?.(error.message))
    keys.secretKey.fill(0)
  }
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${bound}`,
    publicKey: formatKey(keys.publicKey),
    close,
    [asyncDispose]: close,
  }
}

async function answerWith(
  holder: Holder,
  { request, asker }: { request: HolderRequest; asker: string },
  {
    log,
    records,
    isCaller,
  }: Pick<HolderServing, 'log' | 'records'> & { readonly isCaller: boolean },
): Promise<object> {
  const shown = `${request.kind} of ${asker.slice(0, 8)}...`
  try {
    const answer = await holder(request, asker)
    // What can't be recorded is not given.
    if (!('needs' in answer)) await record(records, request, asker, isCaller, answer)
    log.debug?.(`answered: ${shown}`)
    return { answer }
  } catch (thrown) {
    // What others throw may quote a file.
    const error = isStreamsError(thrown) ? thrown : new VaultError('the holder failed')
    log.warn?.(`rejected: ${shown}: ${error.message}`)
    if (!isStreamsError(thrown, 'AUDIT'))
      await record(records, request, asker, isCaller, { code: error.code }).catch(() => undefined)
    return { failure: { code: error.code, message: error.message } }
  }
}

/** Records what a caller has asked to be released, and the holder's part in resharings: strangers must not fill the disk. */
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
      // It has done nothing, but complained of these.
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
