import { BoundedMap } from '../../../core/bounded-map.js'
import { DIGITS } from '../../../report/full-report.js'
import { type EthereumNode, type EventLog, type LogFilter, NodeFailure } from './node.js'

// The part of Solidity’s ABI that the verifier contracts need. The tests compare it with the ABI
// encoders of viem and ethers.

/**
 * The selectors of functions and errors. A selector is the first four bytes of the hash of the
 * signature, and begins the data of a call or an error.
 */
export const selectors = {
  typeAndVersion: '0x181f5a77',
  getVerifier: '0xeeb7b248',
  latestConfigDetails: '0xe84f128e',
  verifyBySender: '0x3d3ac1b5',
  verify: '0xf7e83aee',
  verifyBulk: '0xf873a61c',
  DigestInactive: '0xd990d621',
  IncorrectSignatureCount: '0x5348a282',
} as const

/** The first topics of events. The first topic is the hash of the event’s signature. */
const events = {
  ConfigSet: '0x5b1f376eb2bda670fa39339616d0a73f45b61bec8faeba8ca834f2ebb49676e0',
  ConfigUpdated: '0xb0b75a854fab801413da6202fc07e875c54eaf371a1e3909fb2645364ba58616',
} as const

/** The number of bytes of a word. */
const WORD = 32
const ADDRESS_DIGITS = 40

/** Encodes a number as a word, without `0x`. */
export function numberWord(value: number): string {
  return value.toString(16).padStart(DIGITS, '0')
}

/** Encodes the digits of an address as a word, with zeros on the left. */
export function rightWord(digits: string): string {
  return digits.replace(/^0x/, '').toLowerCase().padStart(DIGITS, '0')
}

/** Encodes a value of the type `bytes`: its length, and its digits with zeros up to whole words. */
export function bytesWords(hex: string): string {
  const digits = hex.slice(2)
  return (
    numberWord(digits.length / 2) + digits.padEnd(DIGITS * Math.ceil(digits.length / DIGITS), '0')
  )
}

/**
 * Reads the words of data that a node returned. Throws NodeFailure if data is missing or wrongly
 * encoded.
 */
class Words {
  /** The number of words; not a whole number if the last word is cut short. */
  readonly count: number
  readonly #digits: string

  /** Reads the words after the first `skipped` bytes of the data. */
  constructor(data: string, skipped = 0) {
    this.#digits = data.slice(2 + 2 * skipped)
    this.count = this.#digits.length / DIGITS
  }

  /** The digits of a word. */
  word(at: number): string {
    if (!(at + 1 <= this.count)) throw malformed()
    return this.#digits.slice(DIGITS * at, DIGITS * (at + 1))
  }

  /** A word as a number; NaN if it is over 2^53 - 1. */
  number(at: number): number {
    const value = Number(`0x${this.word(at)}`)
    return value <= Number.MAX_SAFE_INTEGER ? value : Number.NaN
  }

  address(at: number): string {
    const digits = this.word(at)
    const unused = DIGITS - ADDRESS_DIGITS
    if (!/^0*$/.test(digits.slice(0, unused))) throw malformed()
    return `0x${digits.slice(unused)}`
  }

  /**
   * The addresses of the list whose offset is the word `at`. The list must begin at the word
   * `begin`.
   */
  addresses(at: number, begin: number): readonly string[] {
    const length = this.number(begin)
    if (this.number(at) !== WORD * begin || !(begin + length < this.count)) throw malformed()
    return Array.from({ length }, (_, index) => this.address(begin + 1 + index))
  }

  /**
   * Reads the words as an ABI-encoded string of up to 64 characters. Undefined if they are not such
   * a string.
   */
  text(): string | undefined {
    if (this.count < 2 || this.number(0) !== WORD) return undefined
    const length = this.number(1)
    if (!(length <= 2 * WORD) || this.count < 2 + Math.ceil(length / WORD)) return undefined
    const digits = this.#digits.slice(2 * DIGITS, 2 * DIGITS + 2 * length)
    return digits.replace(/../g, pair => String.fromCharCode(Number.parseInt(pair, 16)))
  }
}

function malformed(): NodeFailure {
  return new NodeFailure('a contract’s answer or log is not encoded as it should be')
}

/** The signers of a configuration in an event. */
interface LoggedConfig {
  readonly signers: readonly string[]
  /** Undefined for `ConfigUpdated`, an event without f. */
  readonly f: number | undefined
}

/**
 * Reads the data of `ConfigSet(bytes32 indexed configDigest, address[] signers, uint8 f)`, or of
 * `ConfigUpdated(bytes32 indexed configDigest, address[] prevSigners, address[] newSigners)`.
 */
function readConfig({ topics, data }: EventLog): LoggedConfig {
  const words = new Words(data)
  const first = words.addresses(0, 2)
  const isSet = topics[0] === events.ConfigSet
  const signers = isSet ? first : words.addresses(1, 3 + first.length)
  const count = isSet ? 3 + first.length : 4 + first.length + signers.length
  if (words.count !== count) throw malformed()
  return { signers, f: isSet ? words.number(1) : undefined }
}

const ZERO_ADDRESS = `0x${'0'.repeat(40)}`

/** The contract of a configuration, and the block of its last change. */
interface Located {
  /** The address of the Verifier that has the configuration, in lower case. */
  readonly verifier: string
  /** The number of the block in which the signers last changed, as contracts number blocks. */
  readonly changedAt: number
}

/**
 * Whether reports of a configuration are accepted and, if so, its f: the contract requires f + 1
 * signatures.
 */
type ConfigState = { readonly isActive: false } | { readonly isActive: true; readonly f: number }

/**
 * Reads configurations through one node. The address is of a VerifierProxy, whose Verifiers are
 * read, or of a Verifier.
 */
export class ConfigReader {
  readonly #node: EthereumNode
  /** In lower case. */
  readonly #address: string
  readonly #search: LogSearch
  /** The names and versions of contracts, by address. */
  readonly #names = new Map<string, Promise<string>>()

  constructor(node: EthereumNode, address: string, fromBlock: number) {
    this.#node = node
    this.#address = address
    this.#search = new LogSearch(node, fromBlock)
  }

  /**
   * Reads the signers of a configuration. Undefined if the contracts have no such configuration, or
   * have deactivated it. `isWanted` is called before each page of logs. If it returns false, the
   * search rejects; the next call continues the search at the same page.
   */
  async read(
    configDigest: string,
    isWanted: () => boolean,
  ): Promise<{ readonly signers: readonly string[]; readonly f: number } | undefined> {
    const located = await this.#locate(configDigest)
    if (located === undefined) return undefined
    const state = await this.#stateOf(configDigest, located.verifier)
    if (state?.isActive === false) return undefined
    const { signers, f = state?.f } = await this.#search.find(located, configDigest, isWanted)
    if (f === undefined)
      throw new NodeFailure(
        'its signers were changed by ConfigUpdated, which does not have f: give the address of the VerifierProxy',
      )
    if (state !== undefined && state.f !== f)
      throw new NodeFailure(`the log has an f of ${f}, the contract one of ${state.f}`)
    return { signers, f }
  }

  async #locate(configDigest: string): Promise<Located | undefined> {
    const verifier = await this.#verifierOf(configDigest)
    if (verifier === undefined) return undefined
    const name = await this.#nameOf(verifier)
    if (!name.startsWith('Verifier 2.'))
      throw new NodeFailure(
        `the contract ${verifier} is ${name}: only those of Verifier 2 log a configuration by its digest`,
      )
    const call = selectors.latestConfigDetails + configDigest.slice(2)
    const changedAt = new Words(await this.#node.call(verifier, call)).number(0)
    return changedAt === 0 ? undefined : { verifier, changedAt }
  }

  async #verifierOf(configDigest: string): Promise<string | undefined> {
    if (!(await this.#isProxy())) return this.#address
    const call = selectors.getVerifier + configDigest.slice(2)
    const verifier = new Words(await this.#node.call(this.#address, call)).address(0)
    return verifier === ZERO_ADDRESS ? undefined : verifier
  }

  async #isProxy(): Promise<boolean> {
    return (await this.#nameOf(this.#address)).startsWith('VerifierProxy ')
  }

  /** The name and version of a contract: `VerifierProxy 2.0.0`. */
  #nameOf(contract: string): Promise<string> {
    const known = this.#names.get(contract)
    if (known !== undefined) return known
    const asking = this.#askName(contract)
    this.#names.set(contract, asking)
    asking.catch(() => this.#names.delete(contract))
    return asking
  }

  async #askName(contract: string): Promise<string> {
    const data = await this.#node
      .call(contract, selectors.typeAndVersion)
      .catch((failure: NodeFailure) => {
        if (failure.revert === undefined) throw failure
        return '0x'
      })
    const name = new Words(data).text()
    if (name !== undefined && /^Verifier(Proxy)? \d/.test(name)) return name
    const where = `${contract} on chain ${await this.#node.chainID()}`
    throw new NodeFailure(
      name === undefined || !/^[\w .-]+$/.test(name)
        ? `there is no verifier at ${where}`
        : `the contract ${where} is ${name}, and not a VerifierProxy or Verifier`,
    )
  }

  /**
   * Sends the verifier a report without signatures, which it refuses. The error says whether the
   * configuration is active, and how many signatures it needs. No function of the contract says
   * this. Undefined if the reader has the address of a Verifier: only its proxy may call it, and
   * the Verifier does not name its proxy.
   */
  async #stateOf(configDigest: string, verifier: string): Promise<ConfigState | undefined> {
    if (!(await this.#isProxy())) return undefined
    const proxy = this.#address
    const revert = await revertOf(
      this.#node.call(verifier, emptyReport(configDigest, proxy), proxy),
    )
    const words = new Words(revert, 4)
    const name = revert.slice(0, 10)
    if (name === selectors.DigestInactive && words.word(0) === configDigest.slice(2))
      return { isActive: false }
    if (name === selectors.IncorrectSignatureCount && words.number(0) === 0)
      return { isActive: true, f: words.number(1) - 1 }
    throw new NodeFailure(`the verifier ${verifier} refused an empty report with an unknown error`)
  }
}

async function revertOf(call: Promise<string>): Promise<string> {
  try {
    await call
  } catch (thrown) {
    const failure = thrown as NodeFailure
    if (failure.revert !== undefined) return failure.revert
    throw new NodeFailure(`${failure.message} (and not by an error of the verifier, as it should)`)
  }
  throw new NodeFailure('the verifier accepted a report without signatures')
}

/**
 * The data of a call `verify(bytes signedReport, address sender)`, with a report that has an empty
 * blob and no signatures.
 */
function emptyReport(configDigest: string, sender: string): string {
  const report = [
    configDigest.slice(2),
    ...[0, 0, 7 * 32, 8 * 32, 9 * 32, 0].map(numberWord),
    // The lengths of the blob, rawRs and rawSs.
    ...[0, 0, 0].map(numberWord),
  ].join('')
  return selectors.verifyBySender + numberWord(64) + rightWord(sender) + bytesWords(`0x${report}`)
}

/** The most unfinished searches that are remembered. */
const MAX_SEARCHES = 64
/**
 * The most blocks that may share one block number of the parent chain: about the blocks of a day.
 */
const MAX_SAME_PARENT = 400_000

type Range = readonly [from: number, to: number]

/**
 * Finds the last event that changed the signers of a configuration. It searches the event logs of a
 * node, from the block `fromBlock` on.
 */
class LogSearch {
  readonly #node: EthereumNode
  readonly #fromBlock: number
  /** The newest block that each unfinished search must still read. */
  readonly #positions = new BoundedMap<string, number>(MAX_SEARCHES)
  /**
   * The largest size of a page that the node has accepted, and the last size that it has refused.
   * Sizes are in blocks.
   */
  #accepted = 0
  #refused = Number.POSITIVE_INFINITY

  constructor(node: EthereumNode, fromBlock: number) {
    this.#node = node
    this.#fromBlock = fromBlock
  }

  async find(
    { verifier, changedAt }: Located,
    configDigest: string,
    isWanted: () => boolean,
  ): Promise<LoggedConfig> {
    const filter: LogFilter = {
      address: verifier,
      topics: [[events.ConfigSet, events.ConfigUpdated], configDigest],
    }
    const key = `${verifier} ${configDigest} ${changedAt}`
    const log = await this.#findLog(key, filter, changedAt, isWanted)
    if (log !== undefined) return readConfig(log)
    throw new NodeFailure(
      `the contract ${verifier} has the configuration, but no log of it from block ${this.#fromBlock} on: fromBlock is too late, or the node has no logs of that time`,
    )
  }

  async #findLog(
    key: string,
    filter: LogFilter,
    changedAt: number,
    isWanted: () => boolean,
  ): Promise<EventLog | undefined> {
    const latest = await this.#node.blockNumber()
    const all: Range = [this.#fromBlock, latest]
    if (this.#positions.has(key)) return this.#findLast(key, filter, all, isWanted)
    // On most chains, contracts and nodes number blocks in the same way.
    const here = changedAt <= latest ? await this.#node.logs(filter, changedAt, changedAt) : []
    const last = here.at(-1)
    if (last !== undefined) return last
    if ((await this.#node.parentBlockNumber('latest')) !== undefined) {
      const range = await this.#blocksOf(changedAt, latest)
      const found = await this.#findLast(`${key} by its parent`, filter, range, isWanted)
      if (found !== undefined) return found
    }
    return this.#findLast(key, filter, all, isWanted)
  }

  /** The range of blocks in which contracts read `parent` as the block number. */
  async #blocksOf(parent: number, latest: number): Promise<Range> {
    const from = await this.#firstBlockOf(parent, this.#fromBlock, latest)
    const until = Math.min(from + MAX_SAME_PARENT, latest)
    return [from, (await this.#firstBlockOf(parent + 1, from, until)) - 1]
  }

  /**
   * Finds the first block from `low` to `high` whose number on the parent chain is at least
   * `parent`. Returns `high + 1` if there is no such block.
   */
  async #firstBlockOf(parent: number, low: number, high: number): Promise<number> {
    let [from, to] = [low, high + 1]
    while (from < to) {
      const middle = Math.floor((from + to) / 2)
      if (((await this.#node.parentBlockNumber(middle)) ?? 0) < parent) from = middle + 1
      else to = middle
    }
    return from
  }

  /** Finds the last log in a range, and reads the range from its end backwards. */
  async #findLast(
    key: string,
    filter: LogFilter,
    [from, to]: Range,
    isWanted: () => boolean,
  ): Promise<EventLog | undefined> {
    const positions = this.#positions
    let end = positions.get(key) ?? to
    while (end >= from) {
      if (!isWanted())
        throw new NodeFailure(`the blocks from ${from} to ${end} are still to be read`)
      const page = await this.#readPage(filter, from, end)
      positions.delete(key)
      const last = page.logs.at(-1)
      if (last !== undefined) return last
      end = page.from - 1
      positions.set(key, end)
    }
    positions.delete(key)
    return undefined
  }

  /**
   * Reads the newest page of a range. Each node has its own limit for the blocks of a request, and
   * its own error beyond the limit. So the size is found by trying. If the node refuses a page but
   * answers another request, the size shrinks. Then it grows again, at most halfway to the refused
   * size.
   */
  async #readPage(filter: LogFilter, from: number, to: number) {
    for (;;) {
      const size = this.#pageSize(to - from + 1)
      const start = to - size + 1
      try {
        const logs = await this.#node.logs(filter, start, to)
        this.#accepted = Math.max(this.#accepted, size)
        return { logs, from: start }
      } catch (failure) {
        if (size === 1) throw failure
        // Throws if the node does not answer at all. Then the size of the range was not the cause.
        await this.#node.blockNumber()
        this.#refused = size
        if (size <= this.#accepted) this.#accepted = 0
      }
    }
  }

  #pageSize(blocks: number): number {
    const accepted = this.#accepted
    const refused = this.#refused
    if (accepted === 0) return refused > blocks ? blocks : Math.max(1, Math.floor(refused / 8))
    const isClose = refused - accepted <= accepted / 8
    const grown = Math.min(2 * accepted, Math.floor((accepted + refused) / 2))
    return Math.min(blocks, isClose ? accepted : grown)
  }
}
