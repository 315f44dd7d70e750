import { describe, expect, test } from '@jest/globals'
import type { DataEngine } from '@sluice/engine'
import { pause } from '../../support/waiting.js'
import { ethUsd, open, start } from '../../support/wire/ha.js'

describe('close', () => {
  test.each([
    ['while discovering', (engine: DataEngine) => engine.blackhole(true), 30],
    ['while connecting', () => undefined, 0],
    [
      'while shaking hands',
      (engine: DataEngine) => {
        for (const origin of engine.origins) origin.blackhole(true)
      },
      150,
    ],
    [
      'while waiting',
      (engine: DataEngine) => {
        for (const origin of engine.origins) origin.refuse(503)
      },
      300,
    ],
    ['while one is open', (engine: DataEngine) => engine.origins[0]?.refuse(503), 300],
    ['while both are open', () => undefined, 300],
  ])('%s leaves nothing, and no event comes after', async (_name, prepare, ms) => {
    const engine = await start()
    prepare(engine)
    const { stream, seen } = open(engine)
    stream.connect().catch(() => undefined)
    await pause(ms)
    // What it must not wait for: a handshake has ten seconds.
    let isLate = false
    const late = setTimeout(() => (isLate = true), 9000)
    await stream.close()
    clearTimeout(late)
    expect(isLate).toBe(false)
    const before = JSON.stringify([seen.events, seen.statuses.length, seen.errors.length])
    engine.blackhole(false)
    for (const origin of engine.origins) {
      origin.blackhole(false)
      origin.refuse(undefined)
    }
    engine.publish(ethUsd)
    await pause(200)
    expect(engine.connections).toBe(0)
    expect(JSON.stringify([seen.events, seen.statuses.length, seen.errors.length])).toBe(before)
  })
})
