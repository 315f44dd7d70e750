// What TCP does to a connection.
import { through } from '../harness/proxy.mjs'

/** The fault lasts as long as the connection that is open. */
const strike = (act, ms) =>
  async function strikeOnce({ proxy, begin, end, pause }) {
    begin()
    act(proxy, proxy.connections.at(-1).number)
    end()
    await pause(ms)
  }

export default [
  {
    row: '2b',
    fault: 'three times, the connection is reset in the middle of a frame',
    feeds: 30,
    bound: { attempts: [3, 3] },
    seconds: 12,
    prepare: through([{ do: 'reset', frame: 60, at: 'middle', times: 3 }]),
    async run({ begin, pause }) {
      begin()
      await pause(12_000)
    },
  },
  {
    row: '6c',
    fault: 'the service half-closes the socket without sending a close frame',
    bound: { recover: 1500, backfill: 2000, attempts: 1 },
    seconds: 6,
    prepare: through(),
    run: strike((proxy, number) => proxy.halfClose(number), 6000),
  },
  {
    row: '6d',
    fault: 'all bytes from the service are lost, while bytes from the client still arrive',
    bound: { detect: 10_000, recover: 11_500, backfill: 3000, attempts: 1 },
    seconds: 16,
    prepare: through(),
    run: strike((proxy, number) => proxy.blackhole(number, { direction: 'down' }), 16_000),
  },
  {
    row: '8a',
    fault: 'the connection slows down to 1 byte/s',
    bound: { detect: 10_000, recover: 11_500, backfill: 3000, attempts: 1 },
    seconds: 16,
    short: true,
    prepare: through(),
    run: strike((proxy, number) => proxy.drip(1, number), 16_000),
  },
  {
    row: '8b',
    fault: 'the connection stalls in the middle of a frame',
    feeds: 30,
    bound: { attempts: 1 },
    seconds: 16,
    prepare: through([{ do: 'blackhole', connection: 1, frame: 60, at: 'middle' }]),
    async run({ begin, pause }) {
      begin()
      await pause(16_000)
    },
  },
]
