import { startFaultProxy } from '@sluice/engine'

/** Puts a fault proxy between the client's streams and the engine, with a script or without: `world.proxy`. */
export const through = script =>
  async function putProxyBetween(world) {
    const { engine, seed, defer, config } = world
    world.proxy = await startFaultProxy({ upstream: engine.wsEndpoint, seed, script })
    defer(world.proxy.close)
    config.wsEndpoint = world.proxy.wsURL
  }
