// Connections that stay open and say nothing.
import { latestDelivery } from '../harness/figures.mjs'

const stall = where =>
  async function stallFor12s({ engine, begin, end, pause }) {
    begin()
    where(engine).blackhole(true)
    await pause(12_000)
    where(engine).blackhole(false)
    end()
    await pause(12_000)
  }

/** The connection that there is answers pings, and sends nothing any more; one that is opened later does. */
const mute = seconds =>
  async function fallMute({ engine, begin, pause }) {
    begin()
    engine.origins[0].mute(true)
    await pause(seconds * 1000)
  }

/** Longer than a report may be late, in seconds. */
const MUTE = 46

/** Some origins stay mute, and so does each connection that is opened to them, while REST answers. */
const stayMute = which =>
  async function muteAll(world) {
    const { engine, begin, end, pause } = world
    const origins = which(engine.origins)
    const hush = () => origins.forEach(origin => void origin.mute(true))
    begin()
    hush()
    const again = setInterval(hush, 20)
    world.defer(() => clearInterval(again))
    await pause(MUTE * 1000)
    world.measured.latest = latestDelivery(world)
    clearInterval(again)
    for (const origin of origins) origin.mute(false)
    end()
    await pause(3000)
  }

export default [
  {
    row: '6a',
    fault: 'the service sends nothing for 12 s, and the socket stays open',
    options: { maxReconnectAttempts: Number.POSITIVE_INFINITY },
    bound: { detect: 10_000, recover: 6000, backfill: 3000 },
    seconds: 24,
    run: stall(engine => engine),
  },
  {
    row: '6b',
    fault: 'one of two origins sends nothing for 12 s, and its socket stays open',
    engine: { origins: 2 },
    config: { haMode: true },
    bound: { detect: 10_000, pages: 0 },
    seconds: 24,
    run: stall(engine => engine.origins[1]),
  },
  {
    row: '6e',
    fault: 'the service answers pings on the open connection, but sends no reports there',
    feeds: 3,
    bound: { detect: 40_000, attempts: [1, 1], pages: 12 },
    seconds: 45,
    run: mute(45),
  },
  {
    row: '6f',
    fault: 'as row 6e, with the option `staleAfter: 8000`',
    feeds: 3,
    options: { staleAfter: 8000 },
    official: { options: {} },
    bound: { detect: 12_000, attempts: [1, 1], pages: 9 },
    seconds: 14,
    short: true,
    run: mute(14),
  },
  {
    row: '6g',
    fault:
      'for 46 s, one of two origins answers pings but sends no reports, not even on new connections',
    feeds: 3,
    engine: { origins: 2 },
    config: { haMode: true },
    bound: { latest: 1000 },
    seconds: 50,
    run: stayMute(origins => origins.slice(1)),
  },
  {
    row: '6h',
    fault: 'as row 6g, but for both origins; REST still answers; option `staleAfter: 8000`',
    feeds: 3,
    engine: { origins: 2 },
    config: { haMode: true },
    options: { staleAfter: 8000 },
    official: { options: {} },
    bound: { latest: 35_000 },
    seconds: 50,
    run: stayMute(origins => origins),
  },
]
