// The programs that are bundled: what a user writes, as ES module or CommonJS. A function below becomes part of a program by its text,
// so it uses nothing but its arguments and what each platform has.

const names = [
  'allDecoders',
  'bearerAuth',
  'createClient',
  'decodeReport',
  'decoders',
  'dedup',
  'retry',
  'verify',
  'verifyReport',
]

/** What a program does, in its order. Each step returns a remark, or nothing. */
const steps = {
  decode({ decodeReport }, { published }) {
    for (const { fullReport, feedID, decoded } of published) {
      const actual = decodeReport(fullReport, feedID)
      for (const name of Object.keys(decoded))
        if (String(actual[name]) !== decoded[name]) throw new Error(`${feedID}: ${name} differs`)
    }
  },
  async verify(
    { verifyReport, readStream },
    { published, publishedNetwork, verified, feeds, wantsThreads },
  ) {
    const { fullReport, signers } = published.at(-1)
    const { signers: found } = await verifyReport(fullReport, { signers: publishedNetwork })
    if (String(found) !== String(signers)) throw new Error(`signed by ${found}`)
    let claimed
    await readStream(verified, feeds, (reports, stream) => {
      claimed = stream.getMetrics().verification
      return reports.length >= 40
    })
    const threads = await globalThis.countThreads()
    // What it says is the most that may run.
    if (claimed === undefined || claimed.threads > 0 !== threads > 0)
      throw new Error(`${threads} threads answer, and getMetrics() says ${claimed?.threads}`)
    if (wantsThreads && threads === 0) throw new Error('no thread answers, and one was given')
    const count = threads === 1 ? '1 thread' : `${threads} threads`
    return claimed.curveLibrary === 'secp256k1' ? `${count}, native` : count
  },
  async rest({ createClient }, { rest, feeds }) {
    const client = createClient(rest)
    try {
      const { feedID, decoded } = await client.getLatestReport(feeds[0])
      if (feedID !== feeds[0] || decoded.feedID !== feedID) throw new Error('of another feed')
    } finally {
      await client.close()
    }
  },
  async stream({ readStream }, { stream, feeds }) {
    await readStream(stream, feeds, reports => reports.length >= 20)
  },
  async ha({ readStream }, { pair, feeds }) {
    await readStream({ ...pair, haMode: true }, feeds, (reports, stream) => {
      const { origins, deduplicated } = stream.getMetrics()
      const bringing = Object.values(origins).filter(({ received }) => received > 0)
      return reports.length >= 30 && deduplicated >= 10 && bringing.length === 2
    })
  },
  async loading({ readStream }, { pair, feeds }) {
    const started = performance.now()
    const error = await readStream({ ...pair, haMode: true }, feeds, () => true).catch(
      error => error,
    )
    const ms = performance.now() - started
    if (!/is not supported/.test(error?.message)) throw new Error(`it fails otherwise: ${error}`)
    if (ms > 3000)
      throw new Error(
        `it takes ${(ms / 1000).toFixed(1)} s until the stream says: ${error.message}`,
      )
    return `told after ${(ms / 1000).toFixed(1)} s`
  },
  async gateway({ readStream }, { gateway, feeds }) {
    await readStream(gateway, feeds, reports => reports.length >= 10)
  },
}

/** Reads a stream of a client of its own until it has brought enough; rejects with the stream's error. */
async function readStream(options, feeds, isEnough) {
  const client = createClient(options)
  const reports = []
  try {
    const stream = client.createStream(feeds)
    for await (const report of stream) {
      if (!feeds.includes(report.decoded.feedID)) throw new Error('of another feed')
      reports.push(report)
      if (isEnough(reports, stream)) break
    }
    if (reports.length === 0) throw new Error('the stream ended without a report')
    await stream.close()
  } finally {
    await client.close()
  }
}

/** Runs the steps that this row has, each for 40 s at most, and hands the result of each to `report`. */
async function runSteps(library, facts, wanted, report) {
  for (const name of wanted) {
    const started = performance.now()
    let timer
    const lateness = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('it has not settled')), 40_000)
    })
    const result = await Promise.race([
      Promise.resolve()
        .then(() => steps[name](library, facts))
        .then(remark => ({ remark })),
      lateness,
    ]).catch(error => ({ error: `${error?.stack ?? error}` }))
    clearTimeout(timer)
    await report({ name, ms: Math.round(performance.now() - started), ...result })
  }
}

/**
 * What a program on Node is given and tells: the facts by HTTP, the results as lines of JSON. Threads are counted by the process,
 * which tells of each that is started, and not by the library; one counts when it has answered.
 */
async function runOnNode(library, makeWorker, wanted) {
  const answering = new Set()
  process.on('worker', worker => worker.on('message', () => answering.add(worker)))
  globalThis.countThreads = () => answering.size
  const facts = await (await fetch(process.argv[2])).json()
  const verifyOptions = { signers: facts.network, workers: 2, ...makeWorker }
  facts.rest = facts.single
  facts.wantsThreads = makeWorker !== undefined
  facts.verified = { ...facts.single, verify: verifyOptions }
  const plugins = [
    library.decoders(...library.allDecoders),
    library.dedup(),
    library.retry(),
    library.bearerAuth({ token: facts.token }),
  ]
  facts.gateway = { ...facts.gateway, plugins }
  const chosen = process.argv[3]?.split(',') ?? wanted
  await runSteps(library, facts, chosen, result => console.log(JSON.stringify(result)))
}

/** The same in a page, which tells the window around it; it reads through a relay. */
async function runInPage(library, makeWorker, wanted) {
  const answering = new Set()
  const { Worker } = globalThis
  globalThis.Worker = class extends Worker {
    constructor(...args) {
      super(...args)
      this.addEventListener('message', () => answering.add(this))
    }
  }
  globalThis.countThreads = () => answering.size
  const facts = await (await fetch('/facts')).json()
  const { endpoint, wsEndpoint, network } = facts.relay
  const connection = { endpoint, wsEndpoint }
  const plugins = [library.decoders(...library.allDecoders), library.dedup(), library.retry()]
  const verifying = library.verify({ signers: network, workers: 2, ...makeWorker })
  facts.feeds = facts.relay.feeds
  facts.wantsThreads = makeWorker !== undefined
  facts.rest = { ...connection, plugins }
  facts.stream = { ...connection, plugins }
  facts.verified = { ...connection, plugins: [...plugins.slice(0, 2), verifying, plugins[2]] }
  facts.gateway = {
    ...facts.gateway,
    plugins: [...plugins, library.bearerAuth({ token: facts.token })],
  }
  await runSteps(library, facts, wanted, result => parent.postMessage(result))
  parent.postMessage({ name: 'end' })
}

const textOf = value => (typeof value === 'function' ? String(value) : JSON.stringify(value))

function importing(source, imported, from) {
  return source === 'esm'
    ? `import { ${imported.join(', ')} } from '${from}'`
    : `const { ${imported.join(', ')} } = require('${from}')`
}

/**
 * The program of a row. `worker` is the text that starts a thread, which needs what `imports` says; `isAwaited` is for a module that
 * waits at its top level.
 */
export function programText({ target, source, steps: wanted, worker, imports = '', isAwaited }) {
  const run = target === 'node' ? runOnNode : runInPage
  const makeWorker = worker === undefined ? 'undefined' : `{ worker: () => ${worker} }`
  return `${importing(source, names, 'sluice')}
${imports}
const steps = {
${Object.values(steps).map(textOf).join(',\n')}
}
${[readStream, runSteps, run].map(textOf).join('\n')}
const library = { ${names.join(', ')}, readStream }
${isAwaited ? 'await ' : ''}${run.name}(library, ${makeWorker}, ${JSON.stringify(wanted)})
`
}

/** The program of a thread. */
export const threadText = source =>
  source === 'esm'
    ? "import 'sluice/plugins/verify/thread'\n"
    : "require('sluice/plugins/verify/thread')\n"

/** Programs of a page that do one thing, for their size. */
export const small = {
  decodeReport: `import { decodeReport } from 'sluice'
globalThis.decode = decodeReport
`,
  'decodeReport, verifyReport': `import { decodeReport, verifyReport } from 'sluice'
globalThis.decode = decodeReport
globalThis.verify = verifyReport
`,
}
