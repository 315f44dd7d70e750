import { mkdtempSync, rmSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { inspect } from 'node:util'
import { afterAll, afterEach, beforeAll, expect } from '@jest/globals'
import { type HTTPSServer, startHTTPSServer } from '@sluice/engine'
import { AES_KEY_SECRET, type EnclavePlugin } from 'sluice/plugins/confidential-http'
import { type ConfidentialPresetOptions, confidentialPreset } from 'sluice/presets/confidential'
import { type Caller, createEnclave, type Enclave } from '../../enclave/enclave.js'
import type { ConfidentialHTTPRequestJson, HTTPRequest, HTTPResponse } from '../../types.js'
import { createVault } from '../../vault/create-vault.js'
import type { Vault } from '../../vault/vault.js'
import { type RawServer, startRawServer } from './raw-server.js'

export const OWNER = '00112233445566778899aabbccddeeff00112233'

export const DIGITS: string = 'c0ffee00'.repeat(8)

export const SECRETS: {
  readonly apiKey: 'sk-live-x9q7'
  readonly quoted: 'sk-"live"\\x9q7'
  readonly braces: '{{.apiKey}}-x9q7'
  readonly line: 'sk-live\r\nX-Injected: x9q7'
  readonly san_marino_aes_gcm_encryption_key: string
} = {
  apiKey: 'sk-live-x9q7',
  quoted: 'sk-"live"\\x9q7',
  braces: '{{.apiKey}}-x9q7',
  line: 'sk-live\r\nX-Injected: x9q7',
  [AES_KEY_SECRET]: DIGITS,
} as const

/** Parts of secrets that must never leave the enclave. */
export const FORBIDDEN: string[] = ['sk-live', 'sk-"live', 'sk-\\"live', 'x9q7', DIGITS]

export interface Received {
  readonly method: string | undefined
  readonly url: string | undefined
  /** Name and value of each line, in order. */
  readonly lines: readonly (readonly [string, string])[]
  readonly body: Buffer
  readonly port: number | undefined
}

export let directory: string

export let vault: Vault

export let server: HTTPSServer

interface ExternalServer {
  /** The requests of a test, in order. */
  received: Received[]
  /** Answers them. */
  answer: (response: ServerResponse, request: Received) => void
}

export const external: ExternalServer = { received: [], answer: response => response.end('ok') }

export const closing: (() => unknown)[] = []

export async function record(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const { rawHeaders, method, url, socket } = request
  const lines = rawHeaders.flatMap((name, at) =>
    at % 2 === 0 ? [[name, rawHeaders[at + 1] as string] as const] : [],
  )
  const one = { method, url, lines, body: Buffer.concat(chunks), port: socket.remotePort }
  external.received.push(one)
  external.answer(response, one)
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-enclave-'))
  // One holder, because X25519 is slow in here; how holders are asked is shown elsewhere.
  vault = await createVault(join(directory, 'vault'), { owner: OWNER, holders: 1 })
  for (const [key, value] of Object.entries(SECRETS))
    await vault.put({ key }, value, { policy: 'anywhere' })
  server = await startHTTPSServer({ handler: record })
})

afterAll(async () => {
  await server.close()
  rmSync(directory, { recursive: true, force: true })
})

afterEach(async () => {
  external.received = []
  for (const close of closing.splice(0)) await close()
})

export function enclaveOf(
  options: Partial<ConfidentialPresetOptions> = {},
  before: EnclavePlugin[] = [],
): Enclave {
  const network = { loopback: true }
  // Where a request is to succeed, a slow machine must not make it fail.
  const limits = { maxTimeout: 90_000, defaultTimeout: 90_000 }
  const plugins = [...before, ...confidentialPreset({ vault, network, limits, ...options })]
  return createEnclave({ plugins })
}

interface Asking {
  readonly enclave?: Enclave
  readonly secrets?: readonly string[]
  readonly input?: ConfidentialHTTPRequestJson
  readonly caller?: Partial<Caller>
}

/**
 * Every request of these tests is made here: what fails must be an error of ours, and neither it nor a line of the log may
 * hold anything of a secret.
 */
export async function ask(
  request: Partial<HTTPRequest>,
  asking: Asking = {},
): Promise<HTTPResponse> {
  const { enclave = enclaveOf(), secrets = [], caller } = asking
  const lines: string[] = []
  const write = (message: string, facts?: object): void =>
    void lines.push(`${message} ${inspect(facts, { depth: 9 })}`)
  enclave.listen({ debug: write, info: write, warn: write, error: write, connection: write })
  const input = asking.input ?? {
    request: {
      url: server.url,
      method: 'GET',
      ...(request.url === undefined || request.url.startsWith(server.url)
        ? { customRootCaCertPem: server.ca }
        : {}),
      ...request,
    },
    vaultDonSecrets: secrets.map(key => ({ key, namespace: 'main' })),
  }
  try {
    return await enclave.send(input, { owner: OWNER, ...caller })
  } catch (error) {
    const { name, message, stack } = error as Error
    const everything = [
      inspect(error, { depth: 20, showHidden: true }),
      JSON.stringify(error),
      name,
      message,
      stack,
    ].join('\n')
    for (const word of FORBIDDEN) expect(everything).not.toContain(word)
    throw error
  } finally {
    for (const word of FORBIDDEN) expect(lines.join('\n')).not.toContain(word)
  }
}

export const textOf = ({ body }: HTTPResponse): string => Buffer.from(body).toString()

export const valuesOf = (response: HTTPResponse, name: string): readonly string[] | undefined =>
  response.multiHeaders[name]?.values

export const lineOf = (name: string): readonly string[] =>
  (external.received[0]?.lines ?? []).filter(([each]) => each === name).map(([, value]) => value)

/** Says something raw on each connection, and is asked. */
export async function askRaw(
  speak: (socket: TLSSocket, request: string) => void,
  request: Partial<HTTPRequest> = {},
  asking: Asking = {},
): Promise<HTTPResponse> {
  const raw = await raws(await startRawServer(speak))
  return ask({ url: raw.url, customRootCaCertPem: raw.ca, ...request }, asking)
}

export function raws(raw: RawServer): RawServer {
  closing.push(raw.close)
  return raw
}

export const reply = (head: string, body = ''): string => `HTTP/1.1 ${head}\r\n\r\n${body}`

afterEach(() => {
  external.answer = response => response.end('ok')
})
