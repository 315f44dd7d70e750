import { abortable } from '../../../core/async.js'
import { ValidationError } from '../../../core/errors.js'
import { withTimeout } from '../../../core/lifetime.js'
import { kindOf } from '../../../core/options.js'

/**
 * A client of an Ethereum node. It is a client of viem, another client with EIP-1193’s `request`,
 * or a provider of ethers (5 or 6) with `send`. `JsonRpcProvider`, `WebSocketProvider` and
 * `BrowserProvider` have `send`.
 */
export type EthereumClient = RequestingClient | SendingClient

/** A client of viem, or a provider that follows EIP-1193. */
export interface RequestingClient {
  /** Sends a JSON-RPC request, `{ method, params }`, and resolves with its result. */
  // viem’s type of `request` lists all methods, so no wider type than `never` fits here.
  request(args: never): Promise<unknown>
}

/** A provider of ethers. */
export interface SendingClient {
  /** Sends a JSON-RPC request, and resolves with its result. */
  send(method: string, params: unknown[]): Promise<unknown>
}

/**
 * A node failed, or gave an invalid answer. The message contains no URL, because a URL may contain
 * a key.
 */
export class NodeFailure extends Error {
  /** The data that a reverted call returned, `0x` and digits. */
  readonly revert: string | undefined

  constructor(message: string, revert?: string) {
    super(message)
    this.name = 'NodeFailure'
    this.revert = revert
  }
}

/** An event log of a node, after its checks. */
export interface EventLog {
  /** The number of the log’s block. */
  readonly block: number
  /** The log’s index in the block. */
  readonly index: number
  readonly topics: readonly string[]
  /** `0x` and digits, in lower case. */
  readonly data: string
}

/** Says which logs a request asks for. */
export interface LogFilter {
  /** In lower case. */
  readonly address: string
  /** The first topic must be in the list, and the second topic must be equal to the text. */
  readonly topics: readonly [readonly string[], string]
}

/**
 * The most digits of an answer to a call, or of the data of a log. The contracts send far fewer.
 */
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

/** An Ethereum node. The form of its answers is checked. */
export class EthereumNode {
  readonly #client: EthereumClient
  readonly #timeout: number

  /**
   * Sends its requests through a client. A request that takes longer than `timeout` milliseconds
   * fails.
   */
  constructor(client: EthereumClient, timeout: number) {
    this.#client = client
    this.#timeout = timeout
  }

  /** Calls a contract. Rejects with a NodeFailure, which has `revert` if the call was reverted. */
  async call(to: string, data: string, from?: string): Promise<string> {
    const call = { to, data, ...(from === undefined ? {} : { from }) }
    return checkHex('eth_call', await this.#ask('eth_call', [call, 'latest']))
  }

  /** The logs of a range of blocks, in the order of the chain. */
  async logs(filter: LogFilter, from: number, to: number): Promise<readonly EventLog[]> {
    const range = { fromBlock: toQuantity(from), toBlock: toQuantity(to) }
    const found = await this.#ask('eth_getLogs', [{ ...filter, ...range }])
    if (!Array.isArray(found) || found.length > MAX_LOGS)
      throw new NodeFailure('eth_getLogs was not answered with a list of logs')
    const logs = found.map(each => checkLog(each, filter, from, to))
    return logs.sort((one, other) => one.block - other.block || one.index - other.index)
  }

  /** The number of the latest block. */
  async blockNumber(): Promise<number> {
    return checkQuantity('eth_blockNumber', await this.#ask('eth_blockNumber', []))
  }

  /**
   * The number that contracts in a block read as `block.number`, if this number differs from the
   * block’s own number, as on Arbitrum. Undefined on other chains.
   */
  async parentBlockNumber(block: number | 'latest'): Promise<number | undefined> {
    const name = block === 'latest' ? block : toQuantity(block)
    const found = await this.#ask('eth_getBlockByNumber', [name, false])
    if (typeof found !== 'object' || found === null)
      throw new NodeFailure(`there is no block ${block}`)
    const { l1BlockNumber } = found as { l1BlockNumber?: unknown }
    return l1BlockNumber === undefined ? undefined : checkQuantity('l1BlockNumber', l1BlockNumber)
  }

  /** The chain id. */
  async chainID(): Promise<number> {
    return checkQuantity('eth_chainId', await this.#ask('eth_chainId', []))
  }

  async #ask(method: string, params: unknown[]): Promise<unknown> {
    const late = (): Error => new NodeFailure(`${method} took over ${this.#timeout} ms`)
    try {
      return await withTimeout(this.#timeout, late, signal =>
        abortable(send(this.#client, method, params), signal),
      )
    } catch (thrown) {
      if (thrown instanceof NodeFailure) throw thrown
      throw new NodeFailure(`${method} failed: ${describe(thrown)}`, findRevert(thrown))
    }
  }
}

async function send(client: EthereumClient, method: string, params: unknown[]): Promise<unknown> {
  const { request } = client as { request?(args: object): Promise<unknown> }
  return typeof request === 'function'
    ? request.call(client, { method, params })
    : (client as SendingClient).send(method, params)
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

function checkLog(
  value: unknown,
  { address, topics }: LogFilter,
  from: number,
  to: number,
): EventLog {
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

/** The fields in which the errors of viem, ethers and wallets carry the node’s error. */
const inner = ['cause', 'error', 'info', 'data', 'serverError', 'originalError'] as const

/** Yields an error and, recursively, the errors in its fields. */
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

/** The texts of a client’s error, without their URLs. */
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
