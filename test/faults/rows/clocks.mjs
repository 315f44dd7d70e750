// A client whose clock is wrong.
const off = ms =>
  async function beOff(world) {
    await world.create()
    await world.client.ask('skew', { ms })
    try {
      await world.connect()
    } catch (error) {
      if (error.isGone) throw error
      world.measured.isNamed = /clock is \d+ s (ahead|behind)/.test(error.message)
      world.measured.refusedAs = error.name
      return
    }
    await world.settle()
    await world.pause(2000)
  }

export default [
  {
    row: '29a',
    fault: "the client's clock is 3 s ahead",
    connect: false,
    bound: {},
    seconds: 4,
    run: off(3000),
  },
  {
    row: '29b',
    fault: "the client's clock is 3 s behind",
    connect: false,
    bound: {},
    seconds: 4,
    run: off(-3000),
  },
  {
    row: '29c',
    fault: "the client's clock is 30 s ahead at the start",
    connect: false,
    bound: { attempts: 2, refusedAs: undefined },
    seconds: 4,
    run: off(30_000),
  },
  {
    row: '29d',
    fault: "the client's clock jumps an hour ahead and back while reports arrive",
    bound: { attempts: 0 },
    seconds: 12,
    async run({ client, begin, pause }) {
      begin()
      await client.ask('skew', { ms: 3_600_000 })
      await pause(6000)
      await client.ask('skew', { ms: 0 })
      await pause(6000)
    },
  },
  {
    row: '29e',
    fault: "the client's clock is 30 s behind at the start",
    connect: false,
    bound: { attempts: 2, refusedAs: undefined },
    seconds: 4,
    run: off(-30_000),
  },
  {
    row: '29f',
    fault:
      "the client's clock jumps 30 s ahead while reports arrive, and later jumps back; after each jump, the connection is reset",
    bound: { attempts: 4 },
    seconds: 12,
    async run({ client, engine, begin, pause }) {
      begin()
      for (const ms of [30_000, 0]) {
        await client.ask('skew', { ms })
        await pause(1000)
        engine.disconnect()
        await pause(5000)
      }
    },
  },
]
