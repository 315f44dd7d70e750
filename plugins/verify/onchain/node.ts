import { ValidationError } from '../../../core/errors.js'
import { kindOf } from '../../../core/options.js'

/**
 * What asks an Ethereum node: a client of viem or another with EIP-1193’s `request`, or a provider of ethers (5 or 6) that has
 * `send`, as `JsonRpcProvider`, `WebSocketProvider` and `BrowserProvider` do.
 */
export type EthereumClient = RequestingClient | SendingClient

/** A client of viem, or a provider by EIP-1193. */
export interface RequestingClient {
  /** Sends a JSON-RPC request, `{ method, params }`, and resolves with its result. */
  // The types of viem’s `request` name each method that there is.
  request(args: never): Promise<unknown>
}

/** A provider of ethers. */
export interface SendingClient {
  /** Sends a JSON-RPC request, and resolves with its result. */
  send(method: string, params: unknown[]): Promise<unknown>
}

/** A node that failed, or answered what it must not. Its message holds no URL, which may hold a key. */
export class NodeFailure extends Error {
  /** The data that a reverted call returned, `0x` and digits. */
  readonly revert: string | undefined

  constructor(message: string, revert?: string) {
    super(message)
    this.name = 'NodeFailure'
    this.revert = revert
  }
}

/** A log as a node sends it, checked. */
export interface Log {
  /** The number of its block. */
  readonly block: number
  /** Its place in the block. */
  readonly index: number
  readonly topics: readonly string[]
  /** `0x` and digits, in lower case. */
  readonly data: string
}

/** Which logs are asked for. */
export interface LogFilter {
  /** In lower case. */
  readonly address: string
  /** One of the first, and the second. */
  readonly topics: readonly [readonly string[], string]
}

/** An Ethereum node, whose answers are checked for their form. */
export interface EthereumNode {
  /** Rejects with a NodeFailure, which has `revert` if the call was reverted. */
  call(to: string, data: string, from?: string): Promise<string>
  /** In the order of the chain. */
  logs(filter: LogFilter, from: number, to: number): Promise<readonly Log[]>
  blockNumber(): Promise<number>
  /** What contracts of the block read as `block.number`, where the chain has numbers of its own: Arbitrum. */
  parentBlockNumber(block: number | 'latest'): Promise<number | undefined>
  chainID(): Promise<number>
}

type Ask = (method: string, params: unknown[]) => Promise<unknown>

/** The most digits of an answer to a call, and of the data of a log: far more than any of ours has. */
const MAX_DIGITS = 65_536
const MAX_LOGS = 10_000

/** Checks the option `client`. */
export function checkClient(field: string, value: unknown): EthereumClient {
  const { request, send } = (value ?? {}) as Partial<RequestingClient & SendingClient>
  if (typeof request === 'function' || typeof send === 'function') return value as EthereumClient
  throw new ValidationError(
    `${field} must be a client of viem, a provider of ethers with the method send, or one by EIP-1193, not ${kindOf(value)}`,
  )
}

/** Makes a node of a client. No request takes longer than `timeout`, in milliseconds. */
export function createNode(client: EthereumClient, timeout: number): EthereumNode {
  const raw = rawAsk(client)

  const ask: Ask = async (method, params) => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(
        () => reject(new NodeFailure(`${method} took over ${timeout} ms`)),
        timeout,
      )
    })
    try {
      return await Promise.race([raw(method, params), late])
    } catch (thrown) {
      if (thrown instanceof NodeFailure) throw thrown
      throw new NodeFailure(`${method} failed: ${describe(thrown)}`, findRevert(thrown))
    } finally {
      clearTimeout(timer)
    }
  }

  return {
    async call(to, data, from) {
      const call = { to, data, ...(from === undefined ? {} : { from }) }
      return checkHex('eth_call', await ask('eth_call', [call, 'latest']))
    },
    async logs(filter, from, to) {
      const range = { fromBlock: toQuantity(from), toBlock: toQuantity(to) }
      const found = await ask('eth_getLogs', [{ ...filter, ...range }])
      if (!Array.isArray(found) || found.length > MAX_LOGS)
        throw new NodeFailure('eth_getLogs was not answered with a list of logs')
      const logs = found.map(each => checkLog(each, filter, from, to))
      return logs.sort((one, other) => one.block - other.block || one.index - other.index)
    },
    blockNumber: async () => checkQuantity('eth_blockNumber', await ask('eth_blockNumber', [])),
    async parentBlockNumber(block) {
      const name = block === 'latest' ? block : toQuantity(block)
      const found = await ask('eth_getBlockByNumber', [name, false])
      if (typeof found !== 'object' || found === null)
        throw new NodeFailure(`there is no block ${block}`)
      const { l1BlockNumber } = found as { l1BlockNumber?: unknown }
      return l1BlockNumber === undefined ? undefined : checkQuantity('l1BlockNumber', l1BlockNumber)
    },
    chainID: async () => checkQuantity('eth_chainId', await ask('eth_chainId', [])),
  }
}

function rawAsk(client: EthereumClient): Ask {
  if ('request' in client && typeof client.request === 'function') {
    const { request } = client as { request(args: object): Promise<unknown> }
    return async (method, params) => request.call(client, { method, params })
  }
  const { send } = client as SendingClient
  return async (method, params) => send.call(client, method, params)
}

function checkHex(what: string, value: unknown): string {
  if (
    typeof value !== 'string' ||
    value.length > 2 + MAX_DIGITS ||
    !/^0x([0-9a-f]{2})*$/i.test(value)
  )
    throw new NodeFailure(`${what} was not answered with bytes in hexadecimal`)
  return value.toLowerCase()
}

function checkQuantity(what: string, value: unknown): number {
  if (typeof value !== 'string' || !/^0x[0-9a-f]{1,13}$/i.test(value))
    throw new NodeFailure(`${what} was not answered with a number in hexadecimal`)
  return Number(value)
}

function toQuantity(value: number): string {
  return `0x${value.toString(16)}`
}

function checkLog(value: unknown, { address, topics }: LogFilter, from: number, to: number): Log {
  const log = (value ?? {}) as Readonly<Record<string, unknown>>
  const lower = (one: unknown): unknown => (typeof one === 'string' ? one.toLowerCase() : one)
  const found = Array.isArray(log.topics) ? log.topics.map(lower) : []
  const block = checkQuantity('the block of a log', log.blockNumber)
  const isAsked =
    lower(log.address) === address &&
    topics[0].includes(found[0] as string) &&
    found[1] === topics[1] &&
    block >= from &&
    block <= to &&
    log.removed !== true
  if (!isAsked) throw new NodeFailure('eth_getLogs was answered with a log that was not asked for')
  return {
    block,
    index: checkQuantity('the index of a log', log.logIndex),
    topics: found as string[],
    data: checkHex('the data of a log', log.data),
  }
}

/** Fields in which viem, ethers and wallets carry the error that the node sent. */
const inner = ['cause', 'error', 'info', 'data', 'serverError', 'originalError'] as const

/** An error, and those that it carries. */
function* errorsIn(thrown: unknown, depth = 0): Generator<Readonly<Record<string, unknown>>> {
  if (typeof thrown !== 'object' || thrown === null || depth === 6) return
  const error = thrown as Readonly<Record<string, unknown>>
  yield error
  for (const name of inner) yield* errorsIn(error[name], depth + 1)
}

function findRevert(thrown: unknown): string | undefined {
  for (const { data } of errorsIn(thrown)) {
    const found = typeof data === 'string' ? /0x([0-9a-f]{2}){4,}$/i.exec(data) : null
    if (found !== null && found[0].length <= 2 + MAX_DIGITS) return found[0].toLowerCase()
  }
  return undefined
}

/** What an error of a client says, without the URLs in it. */
function describe(thrown: unknown): string {
  const said = new Set<string>()
  for (const { shortMessage, reason, details, message } of errorsIn(thrown))
    for (const text of [shortMessage ?? reason ?? message, details])
      if (typeof text === 'string' && text.trim() !== '') said.add(firstLine(text))
  return said.size === 0 ? kindOf(thrown) : [...said].slice(0, 4).join(': ').slice(0, 300)
}

function firstLine(text: string): string {
  const line = text.trim().slice(0, 1000).replace(/\n.*/s, '')
  return line.replace(/\b[a-z]+:\/\/[^\s"'`,)]+/gi, '[URL]')
}
