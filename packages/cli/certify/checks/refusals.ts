import { createHash } from 'node:crypto'
import { type Finding, notChecked, ok } from '../../doctor/check.js'
import { type CertifyCheck, defineCheck } from '../check.js'
import { deviation, noted } from '../finding.js'
import { memberOf, type ProbeAnswer, type Variation } from '../probe.js'
import { ProbeConnection } from '../stream-watch.js'

/** A request that must be refused, and its name in the record. */
interface Refusal {
  readonly name: string
  readonly path: string
  readonly variation?: Variation
}

/** Defines a check whose requests must all be answered with one status. */
function defineRefusals(
  status: number,
  spec: Pick<CertifyCheck, 'name' | 'title' | 'documented'> & {
    readonly of: (feedID: string) => readonly Refusal[]
  },
): CertifyCheck {
  return defineCheck({
    ...spec,
    source: 'REST API page, authentication page',
    requests: spec.of('').length,
    async run({ probe, feedIDs: [feedID = ''] }) {
      const findings: Finding[] = []
      for (const { name, path, variation } of spec.of(feedID)) {
        const answer = await probe.ask(path, variation)
        const text = `${name}: ${answer.status}`
        findings.push(answer.status === status ? ok(text) : deviation(`${text}, not ${status}`))
      }
      return findings
    },
  })
}

const FEEDS = '/api/v1/feeds'

/** Leaves out arguments. */
export const missingArgument: CertifyCheck = defineRefusals(400, {
  name: 'missing-argument',
  title: 'A missing argument',
  documented: 'A missing argument is answered 400',
  of: feedID => [
    { name: 'latest without feedID', path: '/api/v1/reports/latest' },
    { name: 'a time without timestamp', path: `/api/v1/reports?feedID=${feedID}` },
    { name: 'page without startTimestamp', path: `/api/v1/reports/page?feedID=${feedID}` },
    { name: 'bulk without feedIDs', path: '/api/v1/reports/bulk?timestamp=1700000000' },
  ],
})

/** Sends arguments that can't be read. */
export const malformedArgument: CertifyCheck = defineRefusals(400, {
  name: 'malformed-argument',
  title: 'An argument that can’t be read',
  documented: 'A malformed argument is answered 400',
  of: feedID => [
    { name: 'feedID=0x12', path: '/api/v1/reports/latest?feedID=0x12' },
    { name: 'timestamp=noon', path: `/api/v1/reports?feedID=${feedID}&timestamp=noon` },
    {
      name: 'startTimestamp=noon',
      path: `/api/v1/reports/page?feedID=${feedID}&startTimestamp=noon`,
    },
  ],
})

const without = (name: string): Variation => ({ alter: headers => headers.delete(name) })
const HEADERS = [
  'Authorization',
  'X-Authorization-Timestamp',
  'X-Authorization-Signature-SHA256',
] as const

/** Leaves out headers of the signature. */
export const missingHeader: CertifyCheck = defineRefusals(400, {
  name: 'missing-header',
  title: 'A missing header of the signature',
  documented: 'A missing header is answered 400',
  of: () => HEADERS.map(name => ({ name, path: FEEDS, variation: without(name) })),
})

/** Sends a time that can't be read. */
export const malformedHeader: CertifyCheck = defineRefusals(400, {
  name: 'malformed-header',
  title: 'A time of a signature that can’t be read',
  documented: 'A malformed header is answered 400',
  of: () => [
    {
      name: 'X-Authorization-Timestamp: noon',
      path: FEEDS,
      variation: { alter: headers => headers.set('X-Authorization-Timestamp', 'noon') },
    },
  ],
})

/** A made-up secret, and a key in the form of a key: digits that nobody has. */
const made = createHash('sha256').update(String(performance.timeOrigin)).digest('hex')
const OTHER_KEY = made.slice(0, 32).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')

/** Sends signatures that are wrong in one part. */
export const badSignature: CertifyCheck = defineRefusals(401, {
  name: 'bad-signature',
  title: 'A signature that does not match',
  documented: 'A signature that does not match is answered 401',
  of: feedID => [
    { name: 'another secret', path: FEEDS, variation: { userSecret: made } },
    { name: 'another method', path: FEEDS, variation: { signedMethod: 'POST' } },
    { name: 'another path', path: FEEDS, variation: { signedPath: '/api/v1/reports' } },
    {
      name: 'another query',
      path: `/api/v1/reports/latest?feedID=${feedID}`,
      variation: { signedPath: '/api/v1/reports/latest' },
    },
  ],
})

/** Signs with a key that nobody has. */
export const wrongKey: CertifyCheck = defineRefusals(401, {
  name: 'wrong-key',
  title: 'An unknown API key',
  documented: 'An unknown key is answered 401',
  of: () => [
    { name: 'a made-up key', path: FEEDS, variation: { apiKey: OTHER_KEY, userSecret: made } },
  ],
})

/** The id of a feed that does not exist, of version 3. */
const NO_FEED = `0x0003${made.slice(0, 60)}`

/** Asks for a feed that does not exist. */
export const unknownFeed: CertifyCheck = defineRefusals(401, {
  name: 'unknown-feed',
  title: 'A feed that does not exist',
  documented: 'A feed that does not exist, or that the key may not read, is answered 401',
  of: () => [{ name: 'a made-up id', path: `/api/v1/reports/latest?feedID=${NO_FEED}` }],
})

/** Looks at the bodies of refusals. */
export const errorBodies: CertifyCheck = defineCheck({
  name: 'error-bodies',
  title: 'The bodies of refusals, and a path that does not exist',
  documented: 'Not documented: official clients read message; a load balancer may send HTML',
  source: 'nowhere',
  requests: 2,
  async run({ probe }) {
    const refused = await probe.ask('/api/v1/reports/latest')
    const nowhere = await probe.ask('/api/v1/no-such-path')
    const describe = ({ status, form, json }: ProbeAnswer): string => {
      const names = ['message', 'error', 'detail'].filter(
        name => typeof memberOf(json, name) === 'string',
      )
      return `${status} with ${form}${names.length > 0 ? `: ${names.join(', ')}` : ''}`
    }
    return [
      noted(`a missing argument: ${describe(refused)}`),
      noted(`no such path: ${describe(nowhere)}`),
    ]
  },
})

/** Opens streams that must be refused. */
export const streamRefusals: CertifyCheck = defineCheck({
  name: 'stream-refusals',
  title: 'Streams that are refused',
  documented:
    'An upgrade is refused with 400 if an argument or a header is missing, with 401 if the signature is wrong or a feed may not be read',
  source: 'WebSocket page, authentication page',
  requests: 4,
  async run(context) {
    const cases = [
      ['no feedIDs', 400, { path: '/api/v1/ws' }],
      ['no header of the signature', 400, { variation: without(HEADERS[2]) }],
      ['another secret', 401, { variation: { userSecret: made } }],
      ['a made-up feed', 401, { path: `/api/v1/ws?feedIDs=${NO_FEED}` }],
    ] as const
    const findings: Finding[] = []
    for (const [name, expected, options] of cases) {
      const connection = await ProbeConnection.open(context, options)
      const { status } = connection
      if (status === 101) await connection.close()
      const text = `${name}: ${status}`
      findings.push(status === expected ? ok(text) : deviation(`${text}, not ${expected}`))
    }
    return findings
  },
})

/** What a short record can't test, or must not. */
export const untested: CertifyCheck = defineCheck({
  name: 'untested',
  title: 'What this record leaves out',
  documented:
    'Limits of 10 requests a second and 20 connections (429), 500, 502 and 503, the candlestick API, the TWAP endpoint',
  source: 'rate limits page, REST API page, candlestick page; the TWAP endpoint is undocumented',
  async run() {
    return [
      notChecked('429: only too many requests would show it'),
      notChecked('500, 502, 503: nobody can cause them'),
      notChecked('candlestick API, TWAP endpoint: unsigned data, which sluice does not use'),
    ]
  },
})
