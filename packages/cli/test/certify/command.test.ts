import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import type { Service } from '@sluice/test-support/service/service.js'
import { read } from '@sluice/test-support/sources.js'
import { tablesOf } from '@sluice/test-support/tables.js'
import { until } from '@sluice/test-support/waiting.js'
import { certifyChecks } from '../../certify/certify.js'
import type { CertifyRecord } from '../../certify/record.js'
import { feeds, idsOf, linesOf, PublishingService } from '../support/cli/certify.js'
import { runHere, start } from '../support/cli.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-certify-'))
afterAll(() => rmSync(folder, { recursive: true }))

const envOf = ({ endpoint, wsEndpoint, apiKey, userSecret }: Service) => ({
  ...{ REST_URL: endpoint, WS_URL: wsEndpoint, API_KEY: apiKey, USER_SECRET: userSecret },
})
const signersOf = ({ network }: Service): readonly string[] => [
  ...['--signers', network.signers.join(','), '--f', String(network.f)],
]
const quick = ['--for', '4s', '--rate', '10']

/** All secrets that a service has seen: the key, the secret, and each signature. */
function secretsOf({ apiKey, userSecret, requests }: Service): readonly string[] {
  const signatures = requests.flatMap(({ headers }) => [
    headers['x-authorization-signature-sha256'],
    headers.authorization,
  ])
  const found = signatures.filter(each => typeof each === 'string')
  expect(found.length).toBeGreaterThan(50)
  // Not even a part of the key.
  return [...new Set([apiKey, apiKey.slice(0, 8), apiKey.slice(-12), userSecret, ...found])]
}

test.concurrent('writes a record in two forms, without a secret, though the service repeats them', async () => {
  await using publishing = await PublishingService.start()
  const { service } = publishing
  service.changeAnswers((request, answer) => {
    if (answer.status < 400) return answer
    const message = `${request.path} ${JSON.stringify(request.headers)}`
    return { ...answer, body: JSON.stringify({ message, error: message }) }
  })
  service.availableOrigins = `{001,${service.apiKey},002}`
  publishing.often(() => service.sendFrame(service.apiKey))
  const written = join(folder, 'written')
  const args = ['certify', ...quick, '--out', written, ...signersOf(service)]
  const { code, out, err } = await runHere(args, { env: envOf(service) })
  expect([code, out]).toEqual([6, ''])
  expect(err).toMatch(
    /^at most \d+ requests and upgrades, at most 10 in a second; streams for 4 s\n/,
  )
  expect(err).toMatch(/deviation +stream-messages +\d+ of \d+ messages: a message that is not JSON/)
  const files = readdirSync(written).sort()
  expect(files).toEqual([
    expect.stringMatching(/^certify-other-\d{8}T\d{6}Z\.json$/),
    expect.stringMatching(/^certify-other-\d{8}T\d{6}Z\.md$/),
  ])
  const texts = [out, err, ...files.map(name => readFileSync(join(written, name), 'utf8'))]
  for (const secret of secretsOf(service))
    expect([secret, texts.some(text => text.includes(secret))]).toEqual([secret, false])
  for (const text of texts)
    expect(text).not.toMatch(/x-authorization-[a-z0-9-]+"?: ?"?\w*[0-9]{6}/i)
  expect(texts[3]).toContain('### stream-messages: Messages of a stream')
  const record = JSON.parse(texts[2] as string) as CertifyRecord
  for (const { id, title } of record.checks) expect(texts[3]).toContain(`| \`${id}\` | ${title} |`)
})

/** The JSON type of a value, as the page writes it. */
function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'list'
  return value === null ? 'null' : typeof value
}

/** What a record has that the page's tables do not say, and what it lacks. */
function contradictions(record: CertifyRecord): readonly string[] {
  const rows = tablesOf(read('docs/reference/certify.md')).flatMap(({ rows }) =>
    rows.filter(row => 'field of the record' in row),
  )
  const types = new Map(
    rows.map(row => [(row['field of the record'] ?? '').replaceAll('`', ''), row.type ?? '']),
  )
  const found: string[] = []
  const met = new Set<string>()
  function look(path: string, value: unknown): void {
    const type = types.get(path)
    met.add(path)
    if (type === undefined) found.push(`${path} is not on the page`)
    else if (type.split(',')[0] !== typeOf(value)) found.push(`${path} is no ${type}`)
    // Their keys are open: names of values, and statuses.
    if (/facts$|statuses$/.test(path)) return
    if (Array.isArray(value)) for (const each of value) look(`${path}[]`, each)
    else if (typeof value === 'object' && value !== null)
      for (const [name, each] of Object.entries(value))
        look(path === '' ? name : `${path}.${name}`, each)
  }
  for (const [name, value] of Object.entries(record)) look(name, value)
  return [...found, ...[...types.keys()].filter(path => !met.has(path))]
}

test.concurrent('the record has the shape of the page, also as JSON on standard output', async () => {
  await using publishing = await PublishingService.start()
  const { service } = publishing
  const args = ['certify', ...quick, '--json', feeds.join(',')]
  const { code, out } = await runHere(args, { env: envOf(service) })
  const record = JSON.parse(out) as CertifyRecord
  expect(contradictions(record)).toEqual([])
  const broken = { ...record, checks: [{ id: 1 }], more: true } as unknown as CertifyRecord
  expect(contradictions(broken)).toEqual(
    expect.arrayContaining([
      'checks[].id is no string',
      'more is not on the page',
      'checks[].title',
    ]),
  )
  expect([code, record.exitCode, linesOf(record, 'deviation')]).toEqual([0, 0, []])
  expect(idsOf(record, 'not tested')).toEqual(['signatures', 'untested'])
  expect(record.feeds).toEqual(feeds)
  expect(record.checks.map(({ id }) => id)).toEqual(certifyChecks.map(({ name }) => name))
  expect(new Set(record.checks.map(({ id }) => id)).size).toBe(certifyChecks.length)
  const total = Object.values(record.counts).reduce((sum, each) => sum + each, 0)
  expect(total).toBe(certifyChecks.length)
})

// Ten requests a second are fewer than there are.
test.concurrent('one stop ends it in order, with a partial record that says so', async () => {
  await using publishing = await PublishingService.start()
  const { service } = publishing
  const out = join(folder, 'stopped')
  const { ended, stop } = start(
    ['certify', '--for', '1h', '--rate', '10', '--out', out, ...signersOf(service)],
    { env: envOf(service) },
  )
  const asked = (path: string): boolean => service.requestsTo(`/api/v1/reports/${path}`).length > 0
  // A page is asked for after the others, and a stream has brought reports.
  await until(() => asked('latest') && asked('bulk') && asked('page') && service.open > 0)
  const seen = service.stored(feeds[0] as string).length
  await until(() => service.stored(feeds[0] as string).length > seen + 1)
  stop()
  const { code, err } = await ended
  expect(code).toBe(130)
  expect(err).toMatch(/stopped by SIGINT before it was done\n$/)
  const [json = '', markdown = ''] = readdirSync(out).sort()
  const record = JSON.parse(readFileSync(join(out, json), 'utf8')) as CertifyRecord
  expect(record.complete).toBe(false)
  expect(contradictions(record)).toEqual([])
  expect(linesOf(record, 'deviation')).toEqual([])
  // It has what was seen until then.
  expect(idsOf(record, 'pass')).toEqual(
    expect.arrayContaining(['latest', 'bulk', 'stream-messages', 'envelope', 'close']),
  )
  expect(linesOf(record, 'not tested')).toContain('gaps: stopped before it was done')
  expect(readFileSync(join(out, markdown), 'utf8')).toContain('**Partial: it was stopped after')
  await until(() => service.open === 0)
})

test.concurrent('without access there is a record that says so, and an exit code', async () => {
  await using publishing = await PublishingService.start()
  const { service } = publishing
  const env = { ...envOf(service), USER_SECRET: 'another-secret' }
  const refused = await runHere(['certify', ...quick], { env })
  expect([refused.code, refused.out]).toEqual([3, expect.stringContaining('is refused: 401')])
  expect(refused.out).toMatch(/\| `latest` \| .* \| not tested \| because of access \|/)
  await service.stop()
  const away = await runHere(['certify', ...quick], { env })
  expect([away.code, away.out]).toEqual([4, expect.stringContaining('ECONNREFUSED')])
})

test.each([
  [['--for', 'long'], /--for.*must be a time/],
  [['--rate', '11'], /--rate.*must be a number from 0.1 to 10/],
  [['--json', '--out', 'x'], /--json.*cannot be used with option/],
  [['--endpoint', 'http://127.0.0.1:1'], /--ws-endpoint is required/],
  [['--ws-endpoint', 'ws://127.0.0.1:1,ws://127.0.0.1:2'], /must be a single one/],
])('%#: wrong arguments end it with 2', async (args, message) => {
  const env = { API_KEY: 'key', USER_SECRET: 'secret', REST_URL: 'http://127.0.0.1:1' }
  const { code, err } = await runHere(['certify', ...args], { env })
  expect([code, err]).toEqual([2, expect.stringMatching(message)])
})
