import { describe, expect, test } from '@jest/globals'
import { hurry } from '@sluice/test-support/hurry.js'
import { until } from '@sluice/test-support/waiting.js'
import {
  type Diagnosis,
  diagnose,
  expectOne,
  feed,
  SERVED,
  startService,
} from '../support/cli/doctor.js'

const DAY = 86_400_000

/** The warnings, but that the service is slow: beside other work it is. */
const warningsOf = ({ of }: Diagnosis): readonly string[] =>
  of('warning').filter(text => !text.startsWith('latency: '))

test('finds nothing wrong where nothing is', async () => {
  const { subject, engine } = await startService()
  const diagnosis = await diagnose(subject)
  expect(diagnosis.of('failed')).toEqual([])
  expect(diagnosis.of('not checked')).toEqual([])
  expect(diagnosis.exitCode).toBe(0)
  const checks = new Set(diagnosis.findings.map(({ check }) => check))
  expect([...checks].join(' ')).toBe(
    'node packages proxy dns connection tls clock credentials feeds retirement latency origins',
  )
  expect(diagnosis.of('ok')).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^tls: localhost:\d+: TLSv1\.3, certificate of .*, until 2126-10-30/),
      expect.stringMatching(/^clock: agrees/),
      'credentials: accepted; 2 feeds may be read',
      expect.stringMatching(/^feeds: 0x1003.*1 may be read; its last report is/),
      'origins: high availability is possible: 2 origins',
      expect.stringMatching(
        /^origins: origin 001: connected in \d+ ms.*; [1-9]\d* reports in 0\.4 s/,
      ),
      expect.stringMatching(
        /^origins: origin 002: connected in \d+ ms.*; [1-9]\d* reports in 0\.4 s/,
      ),
    ]),
  )
  await until(() => engine.connections === 0)
})

describe('finds and names', () => {
  test('feeds that the service is going to retire', async () => {
    hurry(4)
    const { subject, engine } = await startService()
    const old = subject.feedIDs[0] as string
    engine.catalogue.set(old, { name: 'OLD/USD', expectedDecommissionAt: '2126-12-01T00:00:00Z' })
    const diagnosis = await diagnose(subject)
    expect(warningsOf(diagnosis)).toEqual([
      `retirement: the service is going to retire OLD/USD ${old} on 2126-12-01`,
    ])
    expect(diagnosis.exitCode).toBe(0)
  })

  test('no date, if the service has no catalogue', async () => {
    hurry(4)
    const { subject, engine } = await startService()
    engine.fail({ status: 404, path: '/api/v1/discovery' })
    const diagnosis = await diagnose(subject)
    expect(diagnosis.of('ok')).toContain(
      'retirement: the service has no catalogue, so no feed has a date',
    )
  })

  test('nothing about the catalogue, if something in front of the service answers', async () => {
    hurry(4)
    const { subject, engine } = await startService()
    const body = '<html><title>Log in</title>'
    engine.fail({ status: 404, path: '/api/v1/discovery', body, times: 9 })
    const diagnosis = await diagnose(subject)
    expect(diagnosis.of('ok').join()).not.toContain('the service has no catalogue')
    expect(warningsOf(diagnosis)).toEqual([
      expect.stringMatching(/^retirement: the service’s catalogue does not answer/),
    ])
  })

  test('a wrong clock', async () => {
    const { subject } = await startService({ now: () => Date.now() + 60_000 })
    const diagnosis = await diagnose(subject)
    expectOne(diagnosis, /^clock: is (59|60)\.\d s ± \d\.\d s behind the service’s/)
    expect(diagnosis.exitCode).toBe(3)
  })

  test('a clock of another day, which nothing corrects', async () => {
    hurry(4)
    const { subject } = await startService({ now: () => Date.now() - 3 * DAY })
    const diagnosis = await diagnose(subject)
    expectOne(diagnosis, /^clock: is 2\d+\.\d s .* ahead of the service’s/, SERVED)
  })

  test('a wrong secret', async () => {
    hurry(4)
    const { subject } = await startService()
    const userSecret = 'another-secret-of-the-test'
    const credentials = { apiKey: subject.credentials?.apiKey as string, userSecret }
    const diagnosis = await diagnose({ ...subject, credentials })
    expectOne(
      diagnosis,
      /^credentials: the service rejects API_KEY or USER_SECRET: it answers 401, and not because of the clock/,
      SERVED.slice(1),
    )
    expect(diagnosis.exitCode).toBe(3)
  })

  test('an answer of 403, which is none of 401', async () => {
    hurry(4)
    const { subject, engine } = await startService()
    engine.fail({ status: 403, path: '/api', times: Number.POSITIVE_INFINITY })
    expectOne(
      await diagnose(subject),
      /^credentials: the service answers 403: it is reached, and forbids/,
      SERVED.slice(1),
    )
  })

  test('no credentials', async () => {
    hurry(4)
    const { subject } = await startService()
    const diagnosis = await diagnose({ ...subject, credentials: undefined })
    expectOne(diagnosis, /^credentials: API_KEY and USER_SECRET are not set/, SERVED.slice(1))
    expect(diagnosis.exitCode).toBe(3)
  })

  test('one dead origin', async () => {
    hurry(4)
    const { subject, engine } = await startService()
    await engine.origins[1]?.kill()
    const diagnosis = await diagnose(subject)
    expectOne(diagnosis, /^origins: origin 002 can’t be connected: .*502/)
    expect(diagnosis.of('ok')).toContainEqual(expect.stringMatching(/^origins: origin 001: conn/))
    expect(diagnosis.exitCode).toBe(4)
  })

  test('an origin that is lost and comes back, and one that brings nothing, as warnings', async () => {
    const { subject, engine } = await startService()
    const [first, second] = engine.origins
    const fault = (async () => {
      await until(() => engine.connections === 2)
      first?.disconnect(1011)
      second?.mute(true)
    })()
    engine.pause()
    const diagnosis = await diagnose({ ...subject, seconds: 1.5 })
    await fault
    expect(diagnosis.of('failed')).toEqual([])
    expect(warningsOf(diagnosis)).toEqual([
      expect.stringMatching(/^origins: origin 001: .*; lost 1 times, the last time: .*1011/),
      expect.stringMatching(/^origins: origin 002: .*; no report in 1\.5 s/),
    ])
  })

  test('one feed that the key is not entitled to', async () => {
    hurry(4)
    const { subject, engine } = await startService()
    engine.entitle(feed(2), false)
    const diagnosis = await diagnose({ ...subject, feedIDs: [feed(1), feed(2)] })
    expectOne(diagnosis, /^feeds: 0x1003.*2 is unknown to the service, or the key is not entitled/)
    expect(diagnosis.exitCode).toBe(3)
  })
})
