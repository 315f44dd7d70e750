import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import type { DataEngine, DataEngineOptions } from '@sluice/engine'
import { startDataEngine } from '@sluice/engine'
import { built } from '@sluice/test-support/files.js'

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

/** A server in a process of its own, with the official client of the protocol. */
export interface Session {
  readonly client: Client
  /** All that the server has sent, on standard output and standard error. */
  readonly traffic: () => string
  /** Calls a tool, and checks that the answer is within its bounds. */
  readonly call: (name: string, input?: Record<string, unknown>) => Promise<Answer>
  readonly close: () => Promise<void>
}

export interface Answer {
  readonly isError: boolean
  /** The first word of an error: `not-verified`. */
  readonly failure: string
  readonly text: string
  readonly data: Readonly<Record<string, unknown>>
}

export async function startSession(env: Env, args: readonly string[] = []): Promise<Session> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [command, ...args],
    env: { ...env },
    stderr: 'pipe',
  })
  let traffic = ''
  transport.stderr?.on('data', chunk => {
    traffic += chunk
  })
  const start = transport.start.bind(transport)
  transport.start = async () => {
    const receive = transport.onmessage
    transport.onmessage = message => {
      traffic += `${JSON.stringify(message)}\n`
      receive?.(message)
    }
    await start()
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
  more: Env = {},
): Promise<{ engine: DataEngine; session: Session; close: () => Promise<void> }> {
  const engine = await startDataEngine(options)
  const session = await startSession(envOf(engine, more))
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
  readonly ms: number
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
  let started = performance.now()
  child.stdout.on('data', chunk => {
    out += chunk
  })
  child.stderr.on('data', chunk => {
    err += chunk
  })
  child.stdin.on('error', () => undefined)
  const ended = new Promise<Ran>(resolve =>
    child.on('close', code => resolve({ code, out, err, ms: performance.now() - started })),
  )
  if (lines !== null) child.stdin.end(lines.map(line => `${line}\n`).join(''))
  if (kill !== undefined) {
    // The command sets its signal handlers before it answers.
    child.stdin.write(`${JSON.stringify(hello)}\n`)
    child.stdout.once('data', () => {
      started = performance.now()
      child.kill(kill)
    })
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
