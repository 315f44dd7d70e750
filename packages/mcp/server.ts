import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import {
  CallToolRequestSchema,
  type CallToolResult,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
} from '@modelcontextprotocol/sdk/types.js'
import { VERSION } from 'sluice/client'
import { abortable, createSemaphore, onAbort } from 'sluice/core'
import { quoted, shown } from 'sluice/internal'
import type { Service } from './service.js'
import { ToolError, toToolError } from './tool-error.js'
import { MAX_ANSWER, resultOf, schemaOf, sizeOf, type Tool, tools } from './tools.js'

const CALL_TIME = 15_000
/** How many calls run at once, and how many may wait. */
const RUNNING = 4
const WAITING = 16
/** The most bytes of a message to the server. */
const MAX_MESSAGE = 262_144
/** The most problems of an input that an error names. */
const MAX_PROBLEMS = 5

const instructions = `Verified prices of a data-streams service (Chainlink Data Streams). Every price has been checked against the signatures of the network; an answer that could not be checked is an error and has no price.
- A price is exact decimal text in units of the quote asset: for ETH/USD, US dollars for one ETH. Quote it unchanged, with the time of its observation, and pass on all warnings.
- An error, or found false, means that there is no price. Say so. Never use a price of memory, of another feed or of another moment in its place.
- A signature proves who signed a price and when. It proves neither that the price is right nor that one can trade at it. get_market_state says whether a feed may be used for a trade now.
- All times are in UTC. No tool changes anything.`

/** What the server is made with. */
export interface ServerParts {
  readonly service: Service
  /** Writes a line of the log. It holds no secret, and nothing of a report. */
  readonly log: (line: string) => void
  readonly stdin: NodeJS.ReadableStream
  readonly stdout: NodeJS.WritableStream
  /** Milliseconds that a call may take, the wait for its turn included. @default 15,000 */
  readonly callTime?: number
}

/** Serves the tools until the input ends, or `signal` aborts. */
export async function serve(parts: ServerParts, signal: AbortSignal): Promise<void> {
  const { service, log, stdin, stdout, callTime = CALL_TIME } = parts
  const life = new AbortController()
  const end = (): void => life.abort(new ToolError('failed', 'the server ends'))
  const server = new Server(
    { name: 'sluice', title: 'sluice', version: VERSION },
    { capabilities: { tools: {} }, instructions },
  )
  const runTool = createRunner(service, life.signal, callTime, log)
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: tools.map(describe) }))
  server.setRequestHandler(CallToolRequestSchema, ({ params }, { signal: cancelled }) => {
    const tool = tools.find(({ name }) => name === params.name)
    if (tool !== undefined) return runTool(tool, params.arguments ?? {}, cancelled)
    const names = tools.map(({ name }) => name).join(', ')
    throw new McpError(
      ErrorCode.InvalidParams,
      `there is no tool ${quoted(params.name)}: the tools are ${names}`,
    )
  })
  // What others sent is not logged: it could be anything.
  server.onerror = () => log('a message could not be read')
  server.onclose = end
  const transport = new StdioServerTransport(
    stdin as ConstructorParameters<typeof StdioServerTransport>[0],
    stdout as ConstructorParameters<typeof StdioServerTransport>[1],
    { maxBufferSize: MAX_MESSAGE },
  )
  stdin.once('end', end)
  stdin.once('close', end)
  stdout.once('error', end)
  onAbort(signal, end)
  if (signal.aborted) end()
  await server.connect(transport)
  await new Promise<void>(resolve => {
    onAbort(life.signal, resolve)
    if (life.signal.aborted) resolve()
  })
  await server.close()
  await service.close()
}

/** A tool as the list has it. */
function describe({ name, title, description, input, output, isLocal = false }: Tool) {
  return {
    name,
    title,
    description,
    inputSchema: schemaOf(input),
    outputSchema: schemaOf(output),
    annotations: {
      title,
      readOnlyHint: true,
      destructiveHint: false,
      idempotentHint: true,
      openWorldHint: !isLocal,
    },
  }
}

/** Returns a function that runs a tool within the limits. It never rejects. */
function createRunner(
  service: Service,
  life: AbortSignal,
  callTime: number,
  log: (line: string) => void,
) {
  const turns = createSemaphore(RUNNING, life)
  let calls = 0

  async function run(tool: Tool, given: unknown, signal: AbortSignal): Promise<CallToolResult> {
    const input = readInput(tool, given)
    return turns.run(callTime, async () => {
      signal.throwIfAborted()
      const answer = await tool.run(input, service, signal)
      if (sizeOf(answer) > MAX_ANSWER)
        throw new ToolError('too-large', `the answer has more than ${MAX_ANSWER} bytes`)
      return resultOf(answer)
    })
  }

  return async function runTool(
    tool: Tool,
    given: unknown,
    cancelled: AbortSignal,
  ): Promise<CallToolResult> {
    const started = performance.now()
    const call = new AbortController()
    const stop = (failure: 'timeout' | 'failed', message: string) => () =>
      call.abort(new ToolError(failure, message))
    const timer = setTimeout(
      stop('timeout', `no answer within ${callTime / 1000} s: try again later`),
      callTime,
    )
    const forgets = [
      onAbort(cancelled, stop('failed', 'the call was cancelled')),
      onAbort(life, stop('failed', 'the server ends')),
    ]
    let outcome = 'ok'
    calls++
    try {
      if (calls > RUNNING + WAITING)
        throw new ToolError('busy', `more than ${RUNNING + WAITING} calls at once: try again later`)
      return await abortable(run(tool, given, call.signal), call.signal)
    } catch (thrown) {
      const { failure, message } = toToolError(thrown)
      outcome = failure
      return { isError: true, content: [{ type: 'text', text: `${failure}: ${message}` }] }
    } finally {
      calls--
      clearTimeout(timer)
      for (const forget of forgets) forget()
      log(`${tool.name}: ${outcome}, ${Math.round(performance.now() - started)} ms`)
    }
  }
}

/** Checks the input of a tool. The error names each field and its rule, and repeats no value. */
function readInput({ input }: Tool, given: unknown): Record<string, unknown> {
  const unknown = Object.keys(given as object).find(name => !Object.hasOwn(input.shape, name))
  if (unknown !== undefined)
    throw new ToolError(
      'invalid-input',
      `${quoted(unknown, 40)} is no field: the fields are ${Object.keys(input.shape).join(', ')}`,
    )
  const read = input.safeParse(given)
  if (read.success) return read.data
  const problems = read.error.issues
    .slice(0, MAX_PROBLEMS)
    .map(({ path, message }) => `${path.join('.') || 'the input'}: ${shown(message, 160)}`)
  throw new ToolError('invalid-input', problems.join('; '))
}
