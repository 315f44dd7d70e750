import { events, type LoggedConfig, readConfigSet, readConfigUpdated } from './abi.js'
import { type EthereumNode, type Log, type LogFilter, NodeFailure } from './node.js'

/** Finds the last event that changed the signers of a configuration. */
export interface LogSearch {
  /**
   * `changedAt` is the number that the contract saw as that of the block. `isWanted` is asked before each page: where it is
   * false, the search rejects, and goes on from there when it is called again.
   */
  find(
    verifier: string,
    configDigest: string,
    changedAt: number,
    isWanted: () => boolean,
  ): Promise<LoggedConfig>
}

/** Searches that have not come to their end. */
const MAX_SEARCHES = 64
/** Blocks with the same number of the parent chain, at most: a day of them. */
const MAX_SAME_PARENT = 400_000

/** Searches the log of a node, from the block `fromBlock` on. */
export function createLogSearch(node: EthereumNode, fromBlock: number): LogSearch {
  const readPage = createPageReader(node)
  /** The newest block that each search has still to read. */
  const positions = new Map<string, number>()

  /** The first block from `low` to `high` whose number on the parent chain is at least `parent`; `high + 1` if none is. */
  async function firstBlockOf(parent: number, low: number, high: number): Promise<number> {
    let [from, to] = [low, high + 1]
    while (from < to) {
      const middle = Math.floor((from + to) / 2)
      if (((await node.parentBlockNumber(middle)) ?? 0) < parent) from = middle + 1
      else to = middle
    }
    return from
  }

  /** The blocks in which contracts read `parent` as the number of their block. */
  async function blocksOf(parent: number, latest: number): Promise<readonly [number, number]> {
    const from = await firstBlockOf(parent, fromBlock, latest)
    const until = Math.min(from + MAX_SAME_PARENT, latest)
    return [from, (await firstBlockOf(parent + 1, from, until)) - 1]
  }

  /** The last of the logs in a range, from its end on. */
  async function findLast(
    key: string,
    filter: LogFilter,
    [from, to]: readonly [number, number],
    isWanted: () => boolean,
  ): Promise<Log | undefined> {
    let end = positions.get(key) ?? to
    while (end >= from) {
      if (!isWanted())
        throw new NodeFailure(`the blocks from ${from} to ${end} are still to be read`)
      const page = await readPage(filter, from, end)
      const last = page.logs.at(-1)
      if (last !== undefined) {
        positions.delete(key)
        return last
      }
      end = page.from - 1
      positions.delete(key)
      if (positions.size === MAX_SEARCHES) positions.delete(positions.keys().next().value as string)
      positions.set(key, end)
    }
    positions.delete(key)
    return undefined
  }

  async function findLog(
    key: string,
    filter: LogFilter,
    changedAt: number,
    isWanted: () => boolean,
  ): Promise<Log | undefined> {
    const latest = await node.blockNumber()
    if (positions.has(key)) return findLast(key, filter, [fromBlock, latest], isWanted)
    // Most chains number their blocks as contracts see them.
    const here = changedAt <= latest ? await node.logs(filter, changedAt, changedAt) : []
    const last = here.at(-1)
    if (last !== undefined) return last
    if ((await node.parentBlockNumber('latest')) !== undefined) {
      const range = await blocksOf(changedAt, latest)
      const found = await findLast(`${key} by its parent`, filter, range, isWanted)
      if (found !== undefined) return found
    }
    return findLast(key, filter, [fromBlock, latest], isWanted)
  }

  return {
    async find(verifier, configDigest, changedAt, isWanted) {
      const filter: LogFilter = {
        address: verifier,
        topics: [[events.ConfigSet, events.ConfigUpdated], configDigest],
      }
      const log = await findLog(
        `${verifier} ${configDigest} ${changedAt}`,
        filter,
        changedAt,
        isWanted,
      )
      if (log === undefined)
        throw new NodeFailure(
          `the contract ${verifier} has the configuration, but no log of it from block ${fromBlock} on: fromBlock is too late, or the node has no logs of that time`,
        )
      return log.topics[0] === events.ConfigSet
        ? readConfigSet(log.data)
        : readConfigUpdated(log.data)
    },
  }
}

type ReadPage = (
  filter: LogFilter,
  from: number,
  to: number,
) => Promise<{ readonly logs: readonly Log[]; readonly from: number }>

/**
 * Reads the newest page of a range. How many blocks a node accepts, and with what error it refuses more, differs between all
 * of them, so the size is tried out: it shrinks where the node refuses and yet answers another question, and grows back
 * halfway to what was refused.
 */
function createPageReader(node: EthereumNode): ReadPage {
  let accepted = 0
  let refused = Number.POSITIVE_INFINITY

  function nextSize(blocks: number): number {
    if (refused > blocks && accepted === 0) return blocks
    if (accepted === 0) return Math.max(1, Math.floor(refused / 8))
    const isClose = refused - accepted <= accepted / 8
    return Math.min(
      blocks,
      isClose ? accepted : Math.min(2 * accepted, Math.floor((accepted + refused) / 2)),
    )
  }

  return async function readPage(filter, from, to) {
    for (;;) {
      const size = nextSize(to - from + 1)
      const start = to - size + 1
      try {
        const logs = await node.logs(filter, start, to)
        accepted = Math.max(accepted, size)
        return { logs, from: start }
      } catch (failure) {
        if (size === 1) throw failure
        // Throws where the node is away: then it is not the range that was refused.
        await node.blockNumber()
        refused = size
        if (size <= accepted) accepted = 0
      }
    }
  }
}
