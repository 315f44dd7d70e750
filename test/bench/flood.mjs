// One side against the flood server: what it received in a second, and how busy either was.

import { feedIDs } from './frames.mjs'
import { startProcess, startProgram } from './rpc.mjs'

/** Starts a server. `sisters` are the programs of sides that are not Node, by their names. */
export async function startFlood(sisters = {}) {
  const server = startProcess('flood-server.mjs')
  const port = await server.ask('listen')
  const sides = new Map()

  function processOf(side) {
    if (!sides.has(side))
      sides.set(
        side,
        side in sisters
          ? startProgram(side, sisters[side])
          : startProcess('side-process.mjs', [side], ['--expose-gc']),
      )
    return sides.get(side)
  }

  /**
   * `side` receives `reports` of so many feeds, from each of so many origins. Sides that do not know copies from new
   * reports have all of them counted; the rate is that of reports all the same. The clock starts after `warmup`, a share of them;
   * `lagMs` is how many milliseconds later than the others the last origin sends.
   */
  async function run(side, options) {
    const {
      reports,
      feeds = 50,
      origins = 1,
      read = 'fullReport',
      pace,
      forMs,
      shards = 1,
      warmup = 1 / 20,
      lagMs,
      latency = false,
    } = options
    const ids = feedIDs(feeds)
    const ticks = Math.ceil(reports / feeds)
    const names = Array.from({ length: origins }, (_, index) => String(index + 1).padStart(3, '0'))
    await server.ask('arm', { connections: origins * shards, ticks, pace, lagMs, origins: names })
    const copies = side.startsWith('ws-') ? origins : 1
    const count = copies * ticks * feeds
    const result = await processOf(side).ask('measure', {
      endpoint: `http://127.0.0.1:${port}`,
      wsEndpoint: `ws://127.0.0.1:${port}`,
      feedIDs: ids,
      haMode: origins > 1,
      connections: origins,
      count,
      skip: forMs === undefined ? Math.ceil(count * warmup) : 1000,
      forMs,
      latency,
      read: side === 'ws-nothing' ? 'nothing' : read,
    })
    const load = await server.ask('sent')
    const { ms, cpuMs } = result
    const received = result.reports / copies
    return {
      // Of a program that is not Node all its threads are counted: it may be busier than one processor.
      busy: (100 * cpuMs) / ms,
      ...result,
      rate: (1000 * received) / ms,
      cpuPerReport: (1000 * cpuMs) / received,
      server: load,
    }
  }

  return {
    run,
    /** Does nothing for so many milliseconds. */
    idle: ms => processOf('ours').ask('idle', ms),
    endpoint: `http://127.0.0.1:${port}`,
    stop() {
      server.stop()
      for (const side of sides.values()) side.stop()
    },
  }
}
