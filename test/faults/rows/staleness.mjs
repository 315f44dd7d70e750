// Connections that stay open and say nothing.
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

export default [
  {
    row: '6a',
    fault: 'the peer stops answering for 12 s, the socket stays open',
    options: { maxReconnectAttempts: Number.POSITIVE_INFINITY },
    bound: { detect: 10_000, recover: 6000, backfill: 3000 },
    seconds: 24,
    run: stall(engine => engine),
  },
  {
    row: '6b',
    fault: 'one of two origins stops answering for 12 s, its socket stays open',
    engine: { origins: 2 },
    config: { haMode: true },
    bound: { detect: 10_000, pages: 0 },
    seconds: 24,
    run: stall(engine => engine.origins[1]),
  },
  {
    row: '6e',
    fault: 'the connection answers pings, and sends nothing any more',
    feeds: 3,
    bound: { detect: 40_000, attempts: [1, 1], pages: 12 },
    seconds: 45,
    run: mute(45),
  },
  {
    row: '6f',
    fault: 'the same, `staleAfter: 8000`',
    feeds: 3,
    options: { staleAfter: 8000 },
    official: { options: {} },
    bound: { detect: 12_000, attempts: [1, 1], pages: 9 },
    seconds: 14,
    short: true,
    run: mute(14),
  },
]
