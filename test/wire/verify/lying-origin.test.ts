import { describe, expect, test } from '@jest/globals'
import type { Forgery } from '@sluice/engine'
import { pause, until } from '../../support/waiting.js'
import {
  ethUsd,
  type Given,
  open,
  publisher,
  slowSource,
  start,
} from '../../support/wire/verify.js'

describe('several origins, one of which lies', () => {
  async function openHA(given: Given = {}, count = 2) {
    const engine = await start({ origins: count })
    const opened = await open(engine, given, { haMode: true, continuity: { maxBackfill: 0 } })
    return { engine, ...opened, publish: publisher(engine) }
  }

  test.each<Forgery>(['value', 'signature', 'signer', 'digest'])(
    'lose nothing, without a conflict, where it is first with a forged %s',
    async forgery => {
      const { engine, stream, seen, publish } = await openHA()
      const [liar, honest] = engine.origins
      liar?.forge(forgery)
      honest?.delay(60_000)
      const published = Array.from({ length: 10 }, () => publish().observationsTimestamp)
      await until(() => seen.refused.length === 10)
      expect(seen.reports).toEqual([])
      honest?.delay(0)
      await until(() => seen.reports.length === 10)
      expect(seen.times()).toEqual(published)
      expect(seen.reports.every(({ originID }) => originID === '002')).toBe(true)
      expect(seen.conflicts).toEqual([])
      expect(seen.gaps).toEqual([])
      expect(stream.getMetrics()).toMatchObject({
        accepted: 10,
        verified: 10,
        verificationFailed: 10,
      })
      expect(stream.getMetrics().origins).toMatchObject({
        [`${engine.wsEndpoint}#001`]: { verificationFailed: 10, verified: 0 },
        [`${engine.wsEndpoint}#002`]: { verified: 10, verificationFailed: 0 },
      })
    },
  )

  test('pass on the true copy that arrived while the forged one was being verified', async () => {
    const engine = await start({ origins: 2 })
    const { source, answer } = slowSource(engine.network)
    const { stream, seen } = await open(
      engine,
      { signers: source },
      { haMode: true, continuity: { maxBackfill: 0 } },
    )
    const publish = publisher(engine)
    const [liar, honest] = engine.origins
    liar?.forge('value')
    honest?.delay(60_000)
    const received = () =>
      Object.values(stream.getMetrics().origins).reduce((sum, origin) => sum + origin.received, 0)
    const published = Array.from({ length: 5 }, () => publish().observationsTimestamp)
    await until(() => received() === 5)
    honest?.delay(0)
    await until(() => received() === 10)
    answer()
    await until(() => seen.reports.length === 5)
    expect(seen.times()).toEqual(published)
    expect(seen.refused).toHaveLength(5)
    expect(seen.conflicts).toEqual([])
  })

  test('cause no conflict where it is late with other values', async () => {
    const { engine, stream, seen, publish } = await openHA()
    const [liar, honest] = engine.origins
    liar?.forge('value')
    liar?.delay(100)
    honest?.delay(0)
    publish()
    publish()
    await until(() => seen.reports.length === 2 && seen.refused.length === 2)
    expect(seen.conflicts).toEqual([])
    expect(stream.getMetrics()).toMatchObject({
      accepted: 2,
      verificationFailed: 2,
      deduplicated: 0,
    })
  })

  test('emit a conflict where both reports are signed', async () => {
    const { engine, stream, seen, publish } = await openHA()
    const published = publish()
    await until(() => seen.reports.length === 1)
    const { observationsTimestamp, validFromTimestamp } = published
    const twin = engine.publish(
      ethUsd,
      { observationsTimestamp, validFromTimestamp, price: 1n },
      { stored: false },
    )
    expect(twin.fullReport).not.toBe(published.fullReport)
    await until(() => seen.conflicts.length === 2)
    expect(seen.conflicts[0]?.other.fullReport).toBe(twin.fullReport)
    expect(seen.reports).toHaveLength(1)
    expect(stream.getMetrics().deduplicated).toBe(3)
  })

  test('a forged time far ahead has no effect', async () => {
    const { engine, stream, seen, publish } = await openHA()
    publish()
    engine.publish(
      ethUsd,
      { observationsTimestamp: 4_000_000_000 },
      { forged: 'signature', stored: false },
    )
    await until(() => seen.refused.length >= 1)
    await pause(50)
    publish()
    await until(() => seen.reports.length === 2)
    await pause(50)
    expect(stream.getMetrics()).toMatchObject({ accepted: 2, outOfOrder: 0 })
    expect(seen.gaps).toEqual([])
  })
})
