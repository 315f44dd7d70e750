import { request as requestHttp } from 'node:http'
import { boxKeys, formatKey, parseKey } from 'sluice/internal'
import type { Failure } from '../../outcome.js'
import { openAnswer, openBootKey, sealRequest } from '../../remote/protocol.js'
import { normalizeRequest } from '../../request/normalize-request.js'
import { toJSON } from '../../sealed-message.js'
import { inputOf } from './sending.js'
import type { World } from './world.js'

export interface Posted {
  readonly status: number
  readonly text: string
  readonly body: Buffer
}

/** Posts what no caller of ours would. */
export function postTo(
  url: string,
  body: Uint8Array | string,
  path = '/v2/requests',
  method = 'POST',
): Promise<Posted> {
  return new Promise((resolve, reject) => {
    const request = requestHttp(`${url}${path}`, { method, agent: false }, response => {
      const chunks: Buffer[] = []
      response.on('data', chunk => chunks.push(chunk))
      response.on('end', () => {
        const answered = Buffer.concat(chunks)
        resolve({ status: response.statusCode ?? 0, text: String(answered), body: answered })
      })
    })
    request.on('error', reject)
    request.end(method === 'GET' ? undefined : body)
  })
}

/** The boot key of the enclave at `url`, asked for by hand. */
export async function fetchBootKey(url: string, enclavePublicKey: string): Promise<Uint8Array> {
  const asker = boxKeys()
  const { body } = await postTo(url, asker.publicKey, '/v2/boot-key')
  const json = openBootKey(body, parseKey('key', enclavePublicKey), asker)
  if (json === undefined) throw new Error('the answer with the boot key does not open')
  return parseKey('bootKey', JSON.parse(json).bootKey)
}

const replyTo = boxKeys()
let lastID = 0

/** The changeable parts of a request; the rest is as in a normal caller's. */
export interface RawRequest {
  readonly bootKey: Uint8Array
  /** Fields of the envelope. */
  readonly fields?: Readonly<Record<string, unknown>>
  readonly callerSecretKey?: string
  readonly path?: string
  readonly timeout?: string
}

/** A request as a caller of ours would seal it, but for what is given. */
export function seal(world: World, given: RawRequest): Uint8Array {
  const {
    bootKey,
    fields = {},
    callerSecretKey = world.callerSecretKey,
    path = '/sealed',
    timeout,
  } = given
  const envelope = {
    version: 2,
    enclave: world.enclavePublicKey,
    id: String(++lastID).padStart(32, '0'),
    issuedAt: Date.now(),
    replyTo: formatKey(replyTo.publicKey),
    request: normalizeRequest(inputOf(world, path, timeout)),
    ...fields,
  }
  return sealRequest(toJSON(envelope), bootKey, boxKeys(parseKey('key', callerSecretKey)))
}

/** Opens an answer of the enclave to a request of `seal`. */
export function open(
  answer: Uint8Array,
  bootKey: Uint8Array,
): { readonly failure?: Failure; readonly response?: unknown } {
  const json = openAnswer(answer, bootKey, replyTo)
  if (json === undefined) throw new Error('the answer does not open')
  return JSON.parse(json)
}
