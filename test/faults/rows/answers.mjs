// Answers that are not what was promised.
import { gzipSync } from 'node:zlib'

const html = '<html><body>a page</body></html>'

/** Asks for a report once per answer: how many are accepted, and how many refusals are no error of the SDK's own. */
const answered = answers =>
  async function answer(world) {
    const { create, engine, feeds, measured } = world
    const client = await create()
    world.before = await client.ask('sample')
    const [feed, other] = feeds
    engine.publish(feed)
    const published = engine.publish(other)
    Object.assign(measured, { accepted: 0, untyped: 0 })
    for (const { call = ['getLatestReport', feed], ...failure } of answers({ feed, published })) {
      engine.fail({ status: 200, ...failure })
      const [method, ...args] = call
      const { error } = await client.ask('call', { method, args }, 30_000)
      if (error === undefined) measured.accepted++
      else if (!error.isOwn) measured.untyped++
    }
    const { peak } = await client.ask('sample')
    measured.peakGrowthMB = (peak - world.before.peak) / 1e6
  }

export default [
  {
    row: '14a',
    fault:
      'the service answers requests with 500, 502, 503, 504 or 200; the body is HTML, is empty, or is text that is not JSON',
    isREST: true,
    connect: false,
    config: { retryAttempts: 0 },
    bound: { accepted: 0, untyped: 0 },
    seconds: 3,
    run: answered(() => [
      ...[500, 502, 503, 504, 200].flatMap(status => [
        { status, body: html, headers: { 'content-type': 'text/html' } },
        { status, body: '' },
      ]),
      { body: 'no JSON' },
    ]),
  },
  {
    row: '14b',
    fault: 'the body of an answer has 64 MB, or has 300 MB and is compressed to 300 kB',
    isREST: true,
    connect: false,
    config: { retryAttempts: 0 },
    bound: { accepted: 0, untyped: 0, peakGrowthMB: 60 },
    seconds: 10,
    run: answered(() => [
      { body: Buffer.alloc(64e6, ' ') },
      { body: gzipSync(Buffer.alloc(300e6, ' ')), headers: { 'content-encoding': 'gzip' } },
    ]),
  },
  {
    row: '16',
    fault:
      'the service answers 200 with `{}`, `null`, `[]`, `"x"`, no report, or with times that are absent, strings, negative, or those of a different report',
    isREST: true,
    connect: false,
    config: { retryAttempts: 0 },
    bound: { accepted: 0, untyped: 0 },
    seconds: 4,
    run: answered(({ feed, published }) => {
      const { feedID, fullReport, observationsTimestamp } = published
      const whole = { feedID, fullReport, observationsTimestamp, validFromTimestamp: 1 }
      const bodies = [
        {},
        null,
        [],
        'x',
        { report: null },
        { report: {} },
        { report: [] },
        { report: { ...whole, observationsTimestamp: undefined } },
        { report: { ...whole, observationsTimestamp: '1' } },
        { report: { ...whole, observationsTimestamp: -1 } },
        { report: { ...whole, fullReport: 7 } },
        { report: { ...whole, feedID: feed } },
        { report: whole },
      ]
      const lists = [{}, null, { reports: null }, { reports: {} }, { reports: [null] }]
      return [
        ...bodies.map(body => ({ body: JSON.stringify(body) })),
        ...lists.flatMap(body => [
          { body: JSON.stringify(body), call: ['getReportsPage', feed, 1, 5] },
          { body: JSON.stringify(body), call: ['getReportsBulk', [feed], 1] },
        ]),
        ...[{}, null, { feeds: null }].map(body => ({
          body: JSON.stringify(body),
          call: ['listFeeds'],
        })),
      ]
    }),
  },
]
