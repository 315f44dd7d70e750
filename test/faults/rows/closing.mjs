// Streams that are closed, twice at once, at the worst of times.
const phases = {
  async 'while it connects'({ engine, client, pause }) {
    engine.blackhole(true)
    client.ask('connect').catch(() => undefined)
    await pause(300)
  },
  async 'before it is answered'({ client }) {
    client.ask('connect').catch(() => undefined)
  },
  async 'while reports come'({ client, pause }) {
    await client.ask('connect')
    await pause(300)
  },
  async 'between two attempts'({ engine, client, pause }) {
    await client.ask('connect')
    engine.disconnect()
    await pause(150)
  },
  async 'while it fetches what is missing'({ engine, client, pause }) {
    await client.ask('connect')
    await pause(300)
    const answer = { status: 200, body: '{"reports":[]}', delayMs: 2000 }
    engine.fail({ ...answer, path: '/api/v1/reports/page' })
    engine.disconnect()
    engine.blackhole(true)
    await pause(700)
    engine.blackhole(false)
    await pause(1200)
  },
}

/** The worst of each figure. */
const worse = (a, b) => ({
  closeMs: Math.max(a.closeMs, b.closeMs),
  handles: Math.max(a.handles, b.handles),
  late: Math.max(a.late, b.late),
})

export default [
  {
    row: '36',
    fault:
      'the program calls `close` twice at the same time, while the stream connects, delivers, waits to connect, or fetches missed reports',
    connect: false,
    bound: { closeMs: 1000, handles: 0, late: 0, lost: undefined, doubled: undefined },
    seconds: 20,
    async run(world) {
      const { engine, measured } = world
      engine.resume()
      measured.phases = {}
      for (const [name, begin] of Object.entries(phases)) {
        const client = await world.create()
        await begin({ ...world, client })
        const { ms, handles, late } = await client.ask('close', { times: 2 }, 10_000)
        measured.phases[name] = { closeMs: ms, handles: handles.length, late: late.length }
        engine.blackhole(false)
        await client.kill()
      }
      world.client = undefined
      Object.assign(measured, Object.values(measured.phases).reduce(worse))
    },
  },
]
