import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { ReadBuffer, serializeMessage } from '@modelcontextprotocol/sdk/shared/stdio.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import type { DataEngine, DataEngineOptions } from '@sluice/engine'
import { startDataEngine } from '@sluice/engine'
import { built } from '@sluice/test-support/files.js'
import { readSettings } from '../../config.js'
import { serve } from '../../server.js'
import { Service } from '../../service.js'

/** The built command. */
export const command: string = built('esm/sluice-mcp.js', 'mcp')

/** The most bytes of an answer. */
export const MAX_ANSWER = 16_384

type Env = Readonly<Record<string, string>>

/** The environment of a server of this engine, with the engine's signers. */
export function envOf(engine: DataEngine, more: Env = {}): Record<string, string> {
  const { signers, f } = engine.network
  return {
    PATH: process.env.PATH ?? '',
    API_KEY: engine.apiKey,
    USER_SECRET: engine.userSecret,
    REST_URL: engine.endpoint,
    WS_URL: engine.wsEndpoint,
    SLUICE_SIGNERS: signers.join(','),
    SLUICE_F: String(f),
    ...more,
  }
}

/** A server in the test itself, with the official client of the protocol between streams. */
export interface Session {
  readonly client: Client
  /** All that the server has sent, and its log. */
  readonly traffic: () => string
  /** Calls a tool, and checks that the answer is within its bounds. */
  readonly call: (name: string, input?: Record<string, unknown>) => Promise<Answer>
  readonly close: () => Promise<void>
}

/** How long a server waits, in milliseconds. */
interface Waits {
  /** For a call. */
  readonly callTime?: number
  /** For the first report of a stream. */
  readonly firstReport?: number
}

export interface Answer {
  readonly isError: boolean
  /** The first word of an error: `not-verified`. */
  readonly failure: string
  readonly text: string
  readonly data: Readonly<Record<string, unknown>>
}

export async function startSession(
  env: Env,
  { firstReport, ...waits }: Waits = {},
): Promise<Session> {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()]
  let traffic = ''
  const stopped = new AbortController()
  const log = (line: string): void => {
    traffic += `${line}\n`
  }
  const service = new Service(readSettings([], env), firstReport)
  const served = serve({ service, log, stdin, stdout, ...waits }, stopped.signal)
  const received = new ReadBuffer()
  const transport: Transport = {
    async start() {
      stdout.on('data', (chunk: Buffer) => {
        traffic += chunk
        received.append(chunk)
        for (let next = received.readMessage(); next !== null; next = received.readMessage())
          transport.onmessage?.(next)
      })
    },
    async send(message) {
      stdin.write(serializeMessage(message))
    },
    async close() {
      stopped.abort()
      await served
      transport.onclose?.()
    },
  }
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(transport)
  // The client then holds answers to the output schemas.
  await client.listTools()
  return {
    client,
    traffic: () => traffic,
    async call(name, input = {}) {
      const result = (await client.callTool({ name, arguments: input })) as CallToolResult
      const size = Buffer.byteLength(JSON.stringify(result))
      if (size > MAX_ANSWER) throw new Error(`${name} answered with ${size} bytes`)
      const text = result.content.map(each => (each.type === 'text' ? each.text : '')).join('\n')
      const isError = result.isError === true
      if (isError && result.structuredContent !== undefined) throw new Error('an error has data')
      return {
        isError,
        failure: isError ? (text.split(':')[0] as string) : '',
        text,
        data: result.structuredContent ?? {},
      }
    },
    close: () => client.close(),
  }
}

/** Starts an engine and a server of it. */
export async function startBoth(
  options: DataEngineOptions,
  waits: Waits = {},
): Promise<{ engine: DataEngine; session: Session; close: () => Promise<void> }> {
  const engine = await startDataEngine(options)
  const session = await startSession(envOf(engine), waits)
  return {
    engine,
    session,
    async close() {
      await session.close()
      await engine.close()
    },
  }
}

/** The output of a command, and its exit code. */
export interface Ran {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** The first message of a client. */
const hello = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  },
}

/**
 * Runs the command with these lines as its input. Null leaves the input open. With `kill`, the
 * command gets the signal once it has answered a first message.
 */
export function runCommand(
  env: Env,
  {
    args = [],
    lines = [],
    kill,
  }: {
    readonly args?: readonly string[]
    readonly lines?: readonly string[] | null
    readonly kill?: NodeJS.Signals
  } = {},
): Promise<Ran> {
  const child = spawn(process.execPath, [command, ...args], { env: { ...env } })
  let [out, err] = ['', '']
  child.stdout.on('data', chunk => {
    out += chunk
  })
  child.stderr.on('data', chunk => {
    err += chunk
  })
  child.stdin.on('error', () => undefined)
  const ended = new Promise<Ran>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', code => resolve({ code, out, err }))
  })
  if (lines !== null) child.stdin.end(lines.map(line => `${line}\n`).join(''))
  if (kill !== undefined) {
    // The command sets its signal handlers before it answers.
    child.stdin.write(`${JSON.stringify(hello)}\n`)
    child.stdout.once('data', () => child.kill(kill))
  }
  return ended
}

/** A folder that `remove` removes. */
export function temporaryFolder(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'sluice-mcp-'))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/** Writes reports as `sluice record` does, and returns the lines. */
export function recordingOf(
  path: string,
  reports: readonly {
    feedID: string
    fullReport: string
    validFromTimestamp: number
    observationsTimestamp: number
  }[],
): void {
  const lines = reports.map(each => {
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = each
    const times = { validFromTimestamp, observationsTimestamp }
    return JSON.stringify({ feedID, ...times, fullReport, source: 'live', receivedAt: 1 })
  })
  writeFileSync(path, lines.map(line => `${line}\n`).join(''))
}
