// What goes wrong in a soak: each begins something, and returns how to end it.

/** Between two numbers. */
const between = (random, least, most) => least + random() * (most - least)
const whole = (random, least, most) => Math.floor(between(random, least, most + 1))
const one = (random, list) => list[Math.floor(random() * list.length)]

const nothing = () => undefined

/** Faults of one origin, on its connections or of its own: the others carry on. */
const ofOrigin = {
  'reset of an origin': ({ proxy }) => {
    proxy.reset()
    return nothing
  },
  'reset of one connection': ({ proxy, random }) => {
    const { number } = one(random, proxy.connections) ?? { number: 1 }
    proxy.reset(number)
    return nothing
  },
  'half-close': ({ proxy }) => {
    proxy.halfClose()
    return nothing
  },
  'blackhole of an origin': ({ proxy }) => proxy.blackhole(),
  'blackhole of one direction': ({ proxy, random }) =>
    proxy.blackhole(undefined, { direction: one(random, ['up', 'down']) }),
  drip: ({ proxy, random }) => proxy.drip(whole(random, 1, 500)),
  latency: async ({ proxy, random }) => {
    await proxy.set({ latencyMs: whole(random, 100, 3000), jitterMs: whole(random, 0, 100) })
    return () => proxy.set({ latencyMs: 0, jitterMs: 0 })
  },
  'narrow band': async ({ proxy, random }) => {
    await proxy.set({ bytesPerSecond: whole(random, 20_000, 200_000) })
    return () => proxy.set({ bytesPerSecond: Number.POSITIVE_INFINITY })
  },
  'flipped bits': async ({ proxy }) => {
    await proxy.set({ corruptRate: 1e-6, direction: 'down' })
    return () => proxy.set({ corruptRate: 0 })
  },
  'refused connections': async ({ proxy }) => {
    await proxy.set({ refuse: true })
    proxy.reset()
    return () => proxy.set({ refuse: false })
  },
  'killed origin': async ({ origin }) => {
    await origin.kill()
    return () => origin.restart()
  },
  'refused upgrades': ({ origin, proxy, random }) => {
    origin.refuse(one(random, [429, 500, 502, 503]))
    proxy.reset()
    return () => origin.refuse(undefined)
  },
  'close code': ({ origin, random }) => {
    origin.disconnect(one(random, [1000, 1001, 1005, 1006, 1011, 1012, 1013]))
    return nothing
  },
  duplicates: ({ origin }) => {
    origin.duplicate(0.5)
    return () => origin.duplicate(0)
  },
  'another order': ({ origin, random }) => {
    origin.reorder(whole(random, 2, 500))
    return () => origin.reorder(0)
  },
  'late reports': ({ origin, random }) => {
    origin.delay(whole(random, 500, 5000))
    return () => origin.delay(0)
  },
  'left out': ({ origin, random }) => {
    origin.drop(between(random, 0.1, 1))
    return () => origin.drop(0)
  },
}

/** Faults of everything at once: what is missed must be fetched. */
const ofAll = {
  'reset of all origins': ({ proxies }) => {
    for (const each of proxies) each.reset()
    return nothing
  },
  'blackhole of all origins': ({ proxies }) => {
    const releases = proxies.map(each => each.blackhole())
    return () => {
      for (const release of releases) release()
    }
  },
  'service down': async ({ engine }) => {
    await engine.stop()
    return () => engine.start()
  },
  'left out by all': ({ engine, random }) => {
    const rate = between(random, 0.05, 0.3)
    for (const each of engine.origins) each.drop(rate)
    return () => {
      for (const each of engine.origins) each.drop(0)
    }
  },
  'REST fails': ({ engine, rest, random }) => {
    const callOff = engine.fail({
      status: one(random, [429, 500, 503]),
      times: whole(random, 1, 20),
      path: '/api/v1/reports',
    })
    rest.reset()
    return callOff
  },
  'REST in a blackhole': ({ rest }) => rest.blackhole(),
}

const kinds = Object.entries({ ...ofOrigin, ...ofAll })

/** Makes a function that begins a fault, and tells its name, where it is, and how to end it: each kind once in random order, again and again. */
export function createFaults({ engine, proxies, rest, random }) {
  let left = []

  return async function beginFault() {
    if (left.length === 0) left = [...kinds]
    const [[name, begin]] = left.splice(whole(random, 0, left.length - 1), 1)
    const index = whole(random, 0, proxies.length - 1)
    const origin = engine.origins[index]
    const end = await begin({ engine, proxies, rest, random, proxy: proxies[index], origin })
    return { name: name in ofAll ? name : `${name} ${origin.id}`, end }
  }
}
