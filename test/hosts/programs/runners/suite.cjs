// The same tests for every runner: with this library, and with the official SDK. `fake` replaces the runner's timers by
// its own, which nobody moves on; `restore` ends that.
const { env } = process
const connection = {
  ...{ endpoint: env.ENDPOINT, wsEndpoint: env.WS_ENDPOINT },
  ...{ apiKey: env.API_KEY, userSecret: env.USER_SECRET },
}
const signers = JSON.parse(env.SIGNERS)
const feed = env.FEED_ID
/** In seconds: the official SDK knows no others. */
const slowFeed = env.SLOW_FEED_ID

function check(isTrue, what) {
  if (!isTrue) throw new Error(what)
}

/** Milliseconds for a test, by a clock that nobody replaces. */
const TIMEOUT = 3000
const { setTimeout: later, clearTimeout: forget } = globalThis

/** Rejects what takes longer. */
async function inTime(task) {
  let timer
  const late = new Promise((_resolve, reject) => {
    timer = later(() => reject(new Error(`it hangs: nothing came in ${TIMEOUT} ms`)), TIMEOUT)
  })
  try {
    await Promise.race([task, late])
  } finally {
    forget(timer)
  }
}

const isPrice = value => /^[1-9]\d{18,}$/.test(String(value))

/** Resolves with so many reports of a stream. */
const readSome = (stream, count) =>
  new Promise((resolve, reject) => {
    const reports = []
    stream.on('error', reject)
    stream.on('report', report => reports.push(report) === count && resolve(reports))
    stream.connect().catch(reject)
  })

const sides = {
  sluice: ({ createClient, decodeReport }) => ({
    ...{ id: feed, count: 3 },
    create: () => createClient({ ...connection, verify: { signers } }),
    priceOf: report => report.decoded.price,
    decode: fullReport => decodeReport(fullReport, slowFeed).price,
    closeClient: client => client.close(),
  }),
  official: ({ createClient, decodeReport }) => ({
    ...{ id: slowFeed, count: 1 },
    create: () => createClient(connection),
    priceOf: ({ fullReport }) => decodeReport(fullReport, slowFeed).price,
    decode: fullReport => decodeReport(fullReport, slowFeed).price,
    closeClient() {},
  }),
}

const tests = {
  async decode({ decode }) {
    check(decode(env.PUBLISHED) === BigInt(env.PUBLISHED_PRICE), 'the price is another')
  },
  async request({ id, create, priceOf, closeClient }) {
    const client = create()
    const report = await client.getLatestReport(id)
    check(isPrice(priceOf(report)), `the price is ${priceOf(report)}`)
    await closeClient(client)
  },
  async stream({ id, count, create, priceOf, closeClient }) {
    const client = create()
    const stream = client.createStream([id])
    const reports = await readSome(stream, count)
    check(
      reports.every(report => isPrice(priceOf(report))),
      'a price is another',
    )
    await stream.close()
    await closeClient(client)
  },
}

module.exports = function suite({ test, libraries, fake, restore }) {
  for (const [name, library] of Object.entries(libraries))
    for (const [what, run] of Object.entries(tests))
      test(`${name}: ${what}`, async () => {
        fake()
        try {
          await inTime(run(sides[name](library)))
        } finally {
          // The runner has timers of its own to come.
          restore()
        }
      })
}
