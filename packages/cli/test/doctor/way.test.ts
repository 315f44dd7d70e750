import { describe, expect, test } from '@jest/globals'
import { createCertificateAuthority, startFaultProxy } from '@sluice/engine'
import { hurry } from '@sluice/test-support/hurry.js'
import { startProxy } from '@sluice/test-support/wire/egress.js'
import type { Subject } from '../../doctor/context.js'
import { closers, diagnose, expectOne, SERVED, startService } from '../support/cli/doctor.js'

const DAY = 86_400_000

describe('finds and names', () => {
  test('an expired certificate', async () => {
    const { ca, issue } = await createCertificateAuthority()
    const certificate = issue({ hosts: ['localhost'], expiresAt: Date.now() - 2 * DAY })
    const { subject } = await startService({}, certificate)
    const diagnosis = await diagnose({ ...subject, network: { tls: { ca } } })
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
    hurry(4)
    const { ca, issue } = await createCertificateAuthority()
    const { subject } = await startService({}, issue({ hosts: ['localhost'] }))
    const diagnosis = await diagnose({ ...subject, network: { tls: { ca } } })
    expect(diagnosis.of('failed')).toEqual([])
    expect(diagnosis.of('warning')).toContainEqual(expect.stringMatching(/^tls: .*, 0 days/))
  })

  test('a certificate of an authority that is not trusted', async () => {
    const { subject } = await startService()
    const { ca } = await createCertificateAuthority()
    const diagnosis = await diagnose({ ...subject, network: { tls: { ca } } })
    expectOne(diagnosis, /^tls: .* is not trusted: /, ['clock', ...SERVED])
  })

  test('a host without an address', async () => {
    const { subject } = await startService()
    const endpoint = 'https://api.sluice.invalid'
    const diagnosis = await diagnose({
      ...subject,
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
    const { subject } = await startService()
    const [endpoint, wsEndpoint] = ['https://127.0.0.1:1', 'wss://127.0.0.1:1']
    const diagnosis = await diagnose({ ...subject, endpoint, wsEndpoint })
    expectOne(diagnosis, /^connection: 127\.0\.0\.1:1 can’t be reached: .*ECONNREFUSED/, [
      'tls',
      'clock',
      ...SERVED,
    ])
  })

  test('slow REST, as a warning', async () => {
    hurry(4)
    const { subject } = await startService()
    const proxy = await startFaultProxy({ upstream: subject.endpoint })
    closers.push(() => proxy.close())
    await proxy.set({ latencyMs: 300 })
    const diagnosis = await diagnose({ ...subject, endpoint: proxy.url })
    expect(diagnosis.of('failed')).toEqual([])
    expect(diagnosis.of('warning')).toContainEqual(
      expect.stringMatching(/^latency: REST is slow: 5 requests: median \d{3,4} ms/),
    )
    expect(diagnosis.exitCode).toBe(0)
  })

  test('no high availability, as a warning', async () => {
    hurry(4)
    const { subject } = await startService({ origins: 1 })
    const diagnosis = await diagnose(subject)
    expect(diagnosis.of('failed')).toEqual([])
    expect(diagnosis.of('warning')).toContainEqual(
      expect.stringMatching(/^origins: high availability is not possible: localhost:\d+ has one/),
    )
  })

  test('a proxy that refuses CONNECT', async () => {
    const { subject } = await startService()
    const proxy = await startProxy()
    closers.push(() => proxy.close())
    proxy.refuseWith(403)
    const network = { ...subject.network, proxy: proxy.url }
    const diagnosis = await diagnose({ ...subject, network })
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
    const { subject } = await startService()
    process.env.https_proxy = 'socks5://someone:open-sesame@127.0.0.1:1080'
    const network = { ...subject.network, proxy: 'env' }
    const context = diagnose({ ...subject, network })
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
    hurry(4)
    const { subject } = await startService()
    const diagnosis = await diagnose({ ...subject, nodeVersion: '18.20.8' })
    expectOne(diagnosis, /^node: 18\.20\.8 is too old: sluice .* needs Node >=20/)
    expect(diagnosis.exitCode).toBe(1)
  })
})

test('goes through a proxy that wants a password, which is not in its report', async () => {
  hurry(4)
  const { subject } = await startService()
  const password = 'open:sesame/100%'
  const proxy = await startProxy({ username: 'someone', password })
  closers.push(() => proxy.close())
  const url = proxy.url.replace('//', `//someone:${encodeURIComponent(password)}@`)
  const secretive: Subject = {
    ...subject,
    network: { ...subject.network, proxy: url },
    env: { HTTPS_PROXY: url },
  }
  const diagnosis = await diagnose(secretive)
  expect(diagnosis.of('failed')).toEqual([])
  const wrong = {
    ...secretive,
    network: { ...subject.network, proxy: url.replace('open', 'shut') },
  }
  const rejected = await diagnose(wrong)
  expectOne(rejected, /^proxy: .*answered 407/, ['dns', 'connection', 'tls', 'clock', ...SERVED])
  for (const secret of [
    password,
    'sesame',
    subject.credentials?.userSecret,
    subject.credentials?.apiKey,
  ])
    expect(diagnosis.text + rejected.text).not.toContain(secret)
})
