// What a program does with the package, on whatever runs it: nothing here is Node's.

function check(isTrue, what) {
  if (!isTrue) throw new Error(what)
}

function checkSame(actual, expected, what) {
  const [one, other] = [actual, expected].map(value => JSON.stringify(value))
  check(one === other, `${what}: ${one}, not ${other}`)
}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

async function until(isTrue, what) {
  const end = Date.now() + 10_000
  while (!(await isTrue())) {
    check(Date.now() < end, `it did not come to that: ${what}`)
    await sleep(20)
  }
}

/** What a promise rejects with. */
async function failureOf(promise) {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('it was expected to fail')
}

/** Runs the steps in the world at a URL. `load` imports an entry; `report` is called with the result of each step. */
export async function runSteps(url, load, report) {
  async function ask(command, argument) {
    const body = JSON.stringify({ command, argument })
    const response = await fetch(url, { method: 'POST', body })
    return response.json()
  }

  const facts = await ask('facts')
  const { single, pair, feeds, network, published } = facts
  const { createClient, decodeReport, isStreamsError, retry, verifyReport } = await load('sluice')
  const [feed] = feeds

  async function withClient(options, use) {
    const client = createClient(options)
    try {
      return await use(client)
    } finally {
      await client.close()
    }
  }

  /** Reads a stream until `isEnough` of its reports, and closes it. */
  async function readUntil(stream, isEnough) {
    const reports = []
    for await (const report of stream) {
      reports.push(report)
      if (await isEnough(reports)) break
    }
    await stream.close()
    return reports
  }

  /** No observation twice, and each feed's in their order. */
  function checkOrder(reports) {
    for (const id of new Set(reports.map(({ feedID }) => feedID))) {
      const times = timesOf(reports, id)
      check(
        times.every((time, at) => at === 0 || time > times[at - 1]),
        `the times of a feed do not ascend: ${times}`,
      )
    }
  }
  const timesOf = (reports, id) =>
    reports.flatMap(each => (each.feedID === id ? each.observationsTimestamp : []))

  /** What the engine has published of a feed from the first to the last of these reports came, each once. */
  async function checkWhole(reports, id) {
    const times = timesOf(reports, id)
    const wanted = (await ask('timesOf', id)).filter(
      time => time >= times[0] && time <= times.at(-1),
    )
    checkSame(
      [...times].sort((one, other) => one - other),
      wanted,
      'what came of what was published',
    )
  }

  const steps = {
    async 'load every portable entry'() {
      for (const entry of facts.entries) {
        const isProgram = entry.endsWith('/verify/thread')
        check(Object.keys(await load(entry)).length > 0 !== isProgram, `${entry} is empty`)
      }
    },
    'decode published reports'() {
      for (const { fullReport, feedID, decoded } of published) {
        const actual = decodeReport(fullReport, feedID)
        for (const name of Object.keys(decoded))
          checkSame(String(actual[name]), decoded[name], name)
      }
    },
    'decode each version'() {
      for (const { version, fullReport, feedID, decoded } of facts.byOthers) {
        const actual = decodeReport(fullReport, feedID)
        checkSame(actual.version, version, 'version')
        for (const name of Object.keys(decoded))
          checkSame(String(actual[`${name}Raw`] ?? actual[name]), decoded[name], name)
      }
      checkSame(facts.byOthers.length, 13, 'versions')
    },
    async 'verify, in this thread and others'() {
      const { fullReport, feedID, signers } = published.at(-1)
      const options = { signers: facts.publishedNetwork }
      for (const curveLibrary of ['auto', 'wasm', 'noble']) {
        const verified = await verifyReport(fullReport, { ...options, curveLibrary })
        checkSame([verified.feedID, verified.signers], [feedID, signers], curveLibrary)
      }
      const changed = fullReport.slice(0, 700) + (fullReport[700] === '0' ? 1 : 0)
      const error = await failureOf(verifyReport(changed + fullReport.slice(701), options))
      checkSame([error.code, error.reason], ['VERIFICATION', 'unknown-signer'], 'of what was not')
      await withClient({ ...single, verify: { signers: network } }, async client => {
        checkSame((await client.getLatestReport(feed)).feedID, feed, 'feed')
      })
    },
    'request the latest report, one of a time, a page'() {
      return withClient(single, async client => {
        const latest = await client.getLatestReport(feed)
        const time = latest.observationsTimestamp
        const then = await client.getReportByTimestamp(feed, time)
        checkSame(then.fullReport, latest.fullReport, 'the report of its time')
        const page = await client.getReportsPage(feed, time - 5000, 3)
        check(page.length === 3 && page.every(report => report.feedID === feed), 'a page')
      })
    },
    async 'refuse wrong keys with a typed error'() {
      await withClient({ ...single, userSecret: 'wrong' }, async client => {
        const error = await failureOf(client.getLatestReport(feed))
        check(isStreamsError(error, 'AUTHENTICATION'), `${error}`)
        checkSame(error.statusCode, 401, 'status')
      })
    },
    async 'try again after 500'() {
      await ask('fail', { status: 500, times: 2 })
      await withClient({ ...single, retryDelay: 10 }, async client => {
        checkSame((await client.getLatestReport(feed)).feedID, feed, 'feed')
      })
      await ask('fail', { status: 500 })
      await withClient({ ...single, retryAttempts: 0 }, async client => {
        checkSame((await failureOf(client.getLatestReport(feed))).statusCode, 500, 'status')
      })
    },
    'stream live reports'() {
      return withClient(single, async client => {
        const reports = await readUntil(client.createStream(feeds), ({ length }) => length === 30)
        checkOrder(reports)
        for (const id of feeds) await checkWhole(reports, id)
        for (const { decoded, feedID } of reports) checkSame(decoded.feedID, feedID, 'feed')
      })
    },
    'stream from two origins, each report once'() {
      return withClient({ ...pair, haMode: true }, async client => {
        const stream = client.createStream(feeds)
        const reports = await readUntil(
          stream,
          ({ length }) => length >= 30 && stream.getMetrics().deduplicated >= 10,
        )
        checkOrder(reports)
        const origins = Object.values(stream.getMetrics().origins)
        check(
          origins.filter(({ received }) => received > 0).length === 2,
          'both origins brought some',
        )
      })
    },
    'carry on while an origin is down'() {
      return withClient({ ...pair, haMode: true }, async client => {
        const stream = client.createStream(feeds, { reconnectInterval: 200 })
        const isOn = async count => (await ask('connections')).filter(Boolean).length === count
        let after = Number.POSITIVE_INFINITY
        const reading = readUntil(stream, reports => {
          if (after === Number.NEGATIVE_INFINITY) after = reports.length + 30
          return reports.length >= after
        })
        await until(() => isOn(2), 'both are connected')
        await ask('kill', '001')
        after = Number.NEGATIVE_INFINITY
        checkOrder(await reading)
        await ask('restart', '001')
      })
    },
    'fetch what an outage kept back'() {
      return withClient(single, async client => {
        const stream = client.createStream(feeds, { reconnectInterval: 200 })
        let isOver = false
        const reading = readUntil(
          stream,
          reports =>
            isOver &&
            feeds.every(id => {
              const mine = reports.filter(({ feedID }) => feedID === id)
              return (
                mine.some(({ source }) => source === 'backfill') && mine.at(-1).source === 'live'
              )
            }),
        )
        await until(() => stream.getMetrics().accepted > 10, 'it streams')
        await ask('outage')
        isOver = true
        const reports = await reading
        for (const id of feeds) await checkWhole(reports, id)
      })
    },
    async 'say why a stream is refused'() {
      await withClient({ ...single, userSecret: 'wrong' }, async client => {
        const error = await failureOf(client.createStream(feeds).connect())
        check(isStreamsError(error, 'AUTHENTICATION'), `${error}`)
        checkSame(error.statusCode, 401, 'status')
      })
    },
    async 'close with a handshake'() {
      const options = { endpoint: single.endpoint, wsEndpoint: facts.mute, plugins: [retry()] }
      await withClient({ ...options }, async client => {
        const stream = client.createStream(feeds)
        await stream.connect()
        await stream.close()
      })
      let codes = []
      await until(async () => {
        codes = await ask('closeCodes')
        return codes.length > 0
      }, 'the server saw it close')
      checkSame(codes, [1000], 'close codes')
    },
  }

  for (const [name, step] of Object.entries(steps)) {
    const started = Date.now()
    let error
    try {
      await step()
    } catch (thrown) {
      error = String(thrown?.stack ?? thrown)
    }
    report({ name, ms: Date.now() - started, error })
  }
}
