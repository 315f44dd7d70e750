import { describe, expect, test } from '@jest/globals'
import type { Patient } from '../../../cli/doctor/context.js'
import { createCertificateAuthority, startFaultProxy } from '../../../local/index.js'
import { closers, type Diagnosis, diagnose, feed, startService } from '../../support/cli/doctor.js'
import { until } from '../../support/waiting.js'
import { startProxy } from '../../support/wire/egress.js'

const DAY = 86_400_000

/** One fault has one failed line, which names it, and what depends on it is not checked. */
function expectOne(diagnosis: Diagnosis, failure: RegExp, unchecked: readonly string[] = []): void {
  expect(diagnosis.of('failed')).toEqual([expect.stringMatching(failure)])
  const skipped = diagnosis.of('not checked').map(line => line.replace(/:.*/, ''))
  expect(skipped).toEqual(unchecked)
  const { advice } = diagnosis.findings.find(({ status }) => status === 'failed') ?? {}
  expect(advice).toMatch(/\w/)
}

const SERVED = ['credentials', 'feeds', 'latency', 'origins']

test('finds nothing wrong where nothing is', async () => {
  const { patient, engine } = await startService()
  const diagnosis = await diagnose(patient)
  expect(diagnosis.of('failed')).toEqual([])
  expect(diagnosis.of('not checked')).toEqual([])
  expect(diagnosis.exitCode).toBe(0)
  const checks = new Set(diagnosis.findings.map(({ check }) => check))
  expect([...checks].join(' ')).toBe(
    'node packages proxy dns connection tls clock credentials feeds latency origins',
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
  test('a wrong clock', async () => {
    const { patient } = await startService({ now: () => Date.now() + 60_000 })
    const diagnosis = await diagnose(patient)
    expectOne(diagnosis, /^clock: is (59|60)\.\d s ± \d\.\d s behind the service’s/)
    expect(diagnosis.exitCode).toBe(3)
  })

  test('a clock of another day, which nothing corrects', async () => {
    const { patient } = await startService({ now: () => Date.now() - 3 * DAY })
    const diagnosis = await diagnose(patient)
    expectOne(diagnosis, /^clock: is 2\d+\.\d s .* ahead of the service’s/, SERVED)
  })

  test('a wrong secret', async () => {
    const { patient } = await startService()
    const userSecret = 'another-secret-of-the-test'
    const credentials = { apiKey: patient.credentials?.apiKey as string, userSecret }
    const diagnosis = await diagnose({ ...patient, credentials })
    expectOne(
      diagnosis,
      /^credentials: the service rejects API_KEY or USER_SECRET: it answers 401, and not because of the clock/,
      SERVED.slice(1),
    )
    expect(diagnosis.exitCode).toBe(3)
  })

  test('an answer of 403, which is none of 401', async () => {
    const { patient, engine } = await startService()
    engine.fail({ status: 403, path: '/api', times: Number.POSITIVE_INFINITY })
    expectOne(
      await diagnose(patient),
      /^credentials: the service answers 403: it is reached, and forbids/,
      SERVED.slice(1),
    )
  })

  test('no credentials', async () => {
    const { patient } = await startService()
    const diagnosis = await diagnose({ ...patient, credentials: undefined })
    expectOne(diagnosis, /^credentials: API_KEY and USER_SECRET are not set/, SERVED.slice(1))
    expect(diagnosis.exitCode).toBe(3)
  })

  test('an expired certificate', async () => {
    const { ca, issue } = await createCertificateAuthority()
    const certificate = issue({ hosts: ['localhost'], expiresAt: Date.now() - 2 * DAY })
    const { patient } = await startService({}, certificate)
    const diagnosis = await diagnose({ ...patient, network: { tls: { ca } } })
    const day = new Date(Date.now() - 2 * DAY).toISOString().slice(0, 10)
    expectOne(
      diagnosis,
      new RegExp(
        `^tls: .*certificate of Local server, by Local authority .* has expired on ${day}`,
      ),
      ['clock', ...SERVED],
    )
    expect(diagnosis.exitCode).toBe(4)
  })

  test('a certificate that expires within two weeks, as a warning', async () => {
    const { ca, issue } = await createCertificateAuthority()
    const { patient } = await startService({}, issue({ hosts: ['localhost'] }))
    const diagnosis = await diagnose({ ...patient, network: { tls: { ca } } })
    expect(diagnosis.of('failed')).toEqual([])
    expect(diagnosis.of('warning')).toContainEqual(expect.stringMatching(/^tls: .*, 0 days/))
  })

  test('a certificate of an authority that is not trusted', async () => {
    const { patient } = await startService()
    const { ca } = await createCertificateAuthority()
    const diagnosis = await diagnose({ ...patient, network: { tls: { ca } } })
    expectOne(diagnosis, /^tls: .* is not trusted: /, ['clock', ...SERVED])
  })

  test('one dead origin', async () => {
    const { patient, engine } = await startService()
    await engine.origins[1]?.kill()
    const diagnosis = await diagnose(patient)
    expectOne(diagnosis, /^origins: origin 002 can’t be connected: .*502/)
    expect(diagnosis.of('ok')).toContainEqual(expect.stringMatching(/^origins: origin 001: conn/))
    expect(diagnosis.exitCode).toBe(4)
  })

  test('an origin that is lost and comes back, and one that brings nothing, as warnings', async () => {
    const { patient, engine } = await startService()
    const [first, second] = engine.origins
    const fault = (async () => {
      await until(() => engine.connections === 2)
      first?.disconnect(1011)
      second?.mute(true)
    })()
    engine.pause()
    const diagnosis = await diagnose({ ...patient, seconds: 1.5 })
    await fault
    expect(diagnosis.of('failed')).toEqual([])
    expect(diagnosis.of('warning')).toEqual([
      expect.stringMatching(/^origins: origin 001: .*; lost 1 times, the last time: .*1011/),
      expect.stringMatching(/^origins: origin 002: .*; no report in 1\.5 s/),
    ])
  })

  test('one feed that the key is not entitled to', async () => {
    const { patient, engine } = await startService()
    engine.entitle(feed(2), false)
    const diagnosis = await diagnose({ ...patient, feedIDs: [feed(1), feed(2)] })
    expectOne(diagnosis, /^feeds: 0x1003.*2 is unknown to the service, or the key is not entitled/)
    expect(diagnosis.exitCode).toBe(3)
  })

  test('a host without an address', async () => {
    const { patient } = await startService()
    const endpoint = 'https://api.sluice.invalid'
    const diagnosis = await diagnose({
      ...patient,
      endpoint,
      wsEndpoint: endpoint.replace('http', 'ws'),
    })
    expectOne(diagnosis, /^dns: api\.sluice\.invalid is not found: E/, [
      'connection',
      'tls',
      'clock',
      ...SERVED,
    ])
  })

  test('a port where nothing listens', async () => {
    const { patient } = await startService()
    const [endpoint, wsEndpoint] = ['https://127.0.0.1:1', 'wss://127.0.0.1:1']
    const diagnosis = await diagnose({ ...patient, endpoint, wsEndpoint })
    expectOne(diagnosis, /^connection: 127\.0\.0\.1:1 can’t be reached: .*ECONNREFUSED/, [
      'tls',
      'clock',
      ...SERVED,
    ])
  })

  test('slow REST, as a warning', async () => {
    const { patient } = await startService()
    const proxy = await startFaultProxy({ upstream: patient.endpoint })
    closers.push(() => proxy.close())
    await proxy.set({ latencyMs: 300 })
    const diagnosis = await diagnose({ ...patient, endpoint: proxy.url })
    expect(diagnosis.of('failed')).toEqual([])
    expect(diagnosis.of('warning')).toContainEqual(
      expect.stringMatching(/^latency: REST is slow: 5 requests: median \d{3,4} ms/),
    )
    expect(diagnosis.exitCode).toBe(0)
  })

  test('no high availability, as a warning', async () => {
    const { patient } = await startService({ origins: 1 })
    const diagnosis = await diagnose(patient)
    expect(diagnosis.of('failed')).toEqual([])
    expect(diagnosis.of('warning')).toContainEqual(
      expect.stringMatching(/^origins: high availability is not possible: localhost:\d+ has one/),
    )
  })

  test('a proxy that refuses CONNECT', async () => {
    const { patient } = await startService()
    const proxy = await startProxy()
    closers.push(() => proxy.close())
    proxy.refuseWith(403)
    const network = { ...patient.network, proxy: proxy.url }
    const diagnosis = await diagnose({ ...patient, network })
    expectOne(
      diagnosis,
      new RegExp(
        `^proxy: the proxy ${proxy.url} does not connect to localhost:\\d+: it answered 403`,
      ),
      ['dns', 'connection', 'tls', 'clock', ...SERVED],
    )
    expect(diagnosis.exitCode).toBe(4)
    expect(proxy.asked[0]).toMatch(/^localhost:\d+$/)
  })

  test('a proxy of the environment that can’t be used', async () => {
    const { patient } = await startService()
    process.env.https_proxy = 'socks5://someone:open-sesame@127.0.0.1:1080'
    const network = { ...patient.network, proxy: 'env' }
    const context = diagnose({ ...patient, network })
    delete process.env.https_proxy
    const diagnosis = await context
    expectOne(diagnosis, /^proxy: https_proxy must begin with http/, [
      ...['dns', 'connection', 'tls', 'clock'],
      ...SERVED,
    ])
    expect(diagnosis.exitCode).toBe(2)
    expect(diagnosis.text).not.toContain('sesame')
  })

  test('a Node that is too old', async () => {
    const { patient } = await startService()
    const diagnosis = await diagnose({ ...patient, nodeVersion: '18.20.8' })
    expectOne(diagnosis, /^node: 18\.20\.8 is too old: sluice .* needs Node >=20/)
    expect(diagnosis.exitCode).toBe(1)
  })
})

test('goes through a proxy that wants a password, which is not in its report', async () => {
  const { patient } = await startService()
  const password = 'open:sesame/100%'
  const proxy = await startProxy({ username: 'someone', password })
  closers.push(() => proxy.close())
  const url = proxy.url.replace('//', `//someone:${encodeURIComponent(password)}@`)
  const secretive: Patient = {
    ...patient,
    network: { ...patient.network, proxy: url },
    env: { HTTPS_PROXY: url },
  }
  const diagnosis = await diagnose(secretive)
  expect(diagnosis.of('failed')).toEqual([])
  const wrong = {
    ...secretive,
    network: { ...patient.network, proxy: url.replace('open', 'shut') },
  }
  const rejected = await diagnose(wrong)
  expectOne(rejected, /^proxy: .*answered 407/, ['dns', 'connection', 'tls', 'clock', ...SERVED])
  for (const secret of [
    password,
    'sesame',
    patient.credentials?.userSecret,
    patient.credentials?.apiKey,
  ])
    expect(diagnosis.text + rejected.text).not.toContain(secret)
})
