import { describe, expect, test } from '@jest/globals'
import {
  continuity,
  createClient,
  dedup,
  haDiscovery,
  hmacAuth,
  type Plugin,
  retry,
  type SignerSet,
  ValidationError,
  type VerifyOptions,
  verify,
} from '../../../index.js'
import type { Report } from '../../../report/report.js'
import { reportVerifier } from '../../../report/verifier.js'
import { until } from '../../support/waiting.js'
import { closers, ethUsd, publisher, start } from '../../support/wire/verify.js'

describe('the plugin in a stack', () => {
  const facts = { endpoint: 'https://api.example', wsEndpoint: 'wss://ws.example' }
  const signers: SignerSet = {
    signers: [1, 2, 3, 4].map(each => `0x${String(each).padStart(40, '0')}`),
    f: 1,
  }

  test('stands below dedup in the presets, and is not there unless asked for', () => {
    const keys = { apiKey: 'key', userSecret: 'secret' }
    const names = (config: object) =>
      createClient({ ...facts, ...keys, ...config }).stack.map(({ name }) => name)
    for (const haMode of [false, true]) {
      const stack = names({ haMode, verify: { signers } })
      expect(stack.indexOf('verify')).toBe(stack.indexOf('dedup') + 1)
      expect(stack.indexOf('verify')).toBeGreaterThan(stack.indexOf('continuity'))
      expect(names({ haMode })).toEqual(stack.filter(name => name !== 'verify'))
    }
  })

  test('is rejected above continuity and above dedup, and may stand without them', () => {
    for (const [plugins, above] of [
      [[verify({ signers }), continuity(), dedup()], 'continuity'],
      [[continuity(), verify({ signers }), dedup()], 'dedup'],
      [[verify({ signers }), dedup()], 'dedup'],
    ] as const) {
      expect(() => createClient({ ...facts, plugins })).toThrow(ValidationError)
      expect(() => createClient({ ...facts, plugins })).toThrow(`verify must stand below ${above}`)
    }
    const between: Plugin = { name: 'between', report: next => report => next(report) }
    for (const plugins of [
      [verify({ signers })],
      [continuity(), verify({ signers })],
      [dedup(), between, verify({ signers })],
    ])
      void createClient({ ...facts, plugins }).close()
  })

  test('changes nothing of the rule that dedup stands below continuity', () => {
    const plugins = [dedup(), continuity(), verify({ signers })]
    expect(() => createClient({ ...facts, plugins: plugins.slice(0, 2) })).toThrow(ValidationError)
    expect(() => createClient({ ...facts, plugins })).toThrow('dedup must stand below continuity')
  })

  test('names what is wrong with its options', () => {
    const bad: [object | undefined, string][] = [
      [undefined, 'signers'],
      [{}, 'signers'],
      [{ signers, mode: 'some' }, 'mode'],
      [{ signers, mode: { sample: 0 } }, 'mode.sample'],
      [{ signers, mode: { sample: 0.5 } }, 'mode.sample'],
      [{ signers, maxPending: 0 }, 'maxPending'],
      [{ signers, random: 1 }, 'random'],
      [{ signers, enigne: 'noble' }, "'enigne' of verify"],
    ]
    for (const [options, field] of bad) {
      expect(() => verify(options as VerifyOptions)).toThrow(ValidationError)
      expect(() => verify(options as VerifyOptions)).toThrow(field)
    }
  })

  test('is the only plugin that verifies', () => {
    const rival: Plugin = {
      name: 'rival',
      setup: ({ provide }) => provide(reportVerifier, { check: () => undefined }),
    }
    expect(() => createClient({ ...facts, plugins: [verify({ signers }), rival] })).toThrow(
      'two plugins provide the report verifier',
    )
  })

  test('verifies copies without dedup, and passes on no unverified one', async () => {
    const engine = await start({ origins: 2 })
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const plugins = [
      verify({ signers: engine.network, workers: 0 }),
      haDiscovery(),
      retry(),
      hmacAuth({ apiKey, userSecret }),
    ]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    closers.push(() => client.close())
    const stream = client.createStream(ethUsd)
    const times: number[] = []
    stream.on('report', ({ observationsTimestamp }) => void times.push(observationsTimestamp))
    await stream.connect()
    await until(() => engine.connections === 2)
    const publish = publisher(engine)
    const { observationsTimestamp: twice } = publish()
    await until(() => times.length === 2)
    engine.origins[0]?.forge('value')
    const { observationsTimestamp: once } = publish()
    await until(() => times.length === 3 && stream.getMetrics().verificationFailed === 1)
    expect(times).toEqual([twice, twice, once])
  })

  test('shares nothing between two clients of one array', async () => {
    const engine = await start()
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const plugins = [
      continuity(),
      dedup(),
      verify({ signers: engine.network, workers: 0 }),
      retry(),
      hmacAuth({ apiKey, userSecret }),
    ]
    const streams = [1, 2].map(() => {
      const client = createClient({ endpoint, wsEndpoint, plugins })
      closers.push(() => client.close())
      const stream = client.createStream(ethUsd)
      const reports: Report[] = []
      stream.on('report', report => void reports.push(report))
      return { client, stream, reports }
    })
    const [one, other] = streams as [(typeof streams)[number], (typeof streams)[number]]
    for (const { stream } of streams) await stream.connect()
    const publish = publisher(engine)
    publish()
    await until(() => one.reports.length === 1 && other.reports.length === 1)
    await one.client.close()
    publish()
    await until(() => other.reports.length === 2)
    await other.reports[1]?.verify()
    expect(one.reports).toHaveLength(1)
    expect(one.stream.getMetrics()).toMatchObject({ verified: 1 })
    expect(other.stream.getMetrics()).toMatchObject({ verified: 2 })
  })
})
