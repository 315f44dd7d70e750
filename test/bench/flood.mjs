// One side against the flood server: what it received in a second, and how busy either was.

import { feedIDs } from './frames.mjs'
import { startProcess } from './rpc.mjs'

export async function startFlood() {
  const server = startProcess('flood-server.mjs')
  const port = await server.ask('listen')
  const sides = new Map()

  function processOf(side) {
    if (!sides.has(side)) sides.set(side, startProcess('side-process.mjs', [side], ['--expose-gc']))
    return sides.get(side)
  }

  /**
   * `side` receives `reports` of so many feeds, from each of so many origins. Sides that do not know copies from new
   * reports have all of them counted; the rate is that of reports all the same.
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
    } = options
    const ids = feedIDs(feeds)
    const ticks = Math.ceil(reports / feeds)
    const names = Array.from({ length: origins }, (_, index) => String(index + 1).padStart(3, '0'))
    await server.ask('arm', { connections: origins * shards, ticks, pace, origins: names })
    const copies = side.startsWith('ws-') ? origins : 1
    const count = copies * ticks * feeds
    const result = await processOf(side).ask('measure', {
      endpoint: `http://127.0.0.1:${port}`,
      wsEndpoint: `ws://127.0.0.1:${port}`,
      feedIDs: ids,
      haMode: origins > 1,
      connections: origins,
      count,
      skip: forMs === undefined ? Math.ceil(count / 20) : 1000,
      forMs,
      read: side === 'ws-nothing' ? 'nothing' : read,
    })
    const load = await server.ask('sent')
    return {
      ...result,
      rate: result.rate / copies,
      cpuPerReport: result.cpuPerReport * copies,
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
