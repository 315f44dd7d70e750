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
]
