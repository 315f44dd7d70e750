// What runs in the page, and in a worker of it: bundled as a user bundles it, for a browser.
import {
  allDecoders,
  createClient,
  decodeReport,
  decoders,
  dedup,
  defaultPreset,
  generateAuthHeadersAsync,
  isStreamsError,
  retry,
  verify,
  verifyReport,
} from 'sluice'
import { checkProof } from 'sluice/proof'

function check(isTrue, what) {
  if (!isTrue) throw new Error(what)
}

async function failureOf(promise) {
  return promise.then(
    () => new Error('it was expected to fail'),
    error => error,
  )
}

async function withClient(options, use) {
  const client = createClient(options)
  try {
    return await use(client)
  } finally {
    await client.close()
  }
}

const place = globalThis.document?.title ?? 'worker'
/** The curve library that a page can run best. */
const fastest = place === 'page without WebAssembly' ? 'noble' : 'wasm'

const checksOf = ({ published, signers, relay, credentials, example }) => {
  const { endpoint, wsEndpoint, feeds, network } = relay
  return {
    'has nothing of Node'() {
      for (const name of ['process', 'Buffer', 'require', 'setImmediate'])
        check(!(name in globalThis), `there is ${name}`)
    },
    'decodes published reports'() {
      for (const { fullReport, feedID, decoded } of published) {
        const actual = decodeReport(fullReport, feedID)
        for (const name of Object.keys(decoded)) check(String(actual[name]) === decoded[name], name)
      }
    },
    async 'verifies a published report, and refuses it with another price'() {
      const { fullReport, signers: by } = published.at(-1)
      const verified = await verifyReport(fullReport, { signers })
      check(String(verified.signers) === String(by), `signed by ${verified.signers}`)
      const digit = fullReport[1000] === '0' ? '1' : '0'
      const changed = fullReport.slice(0, 1000) + digit + fullReport.slice(1001)
      const error = await failureOf(verifyReport(changed, { signers }))
      check(error.reason === 'unknown-signer', `${error}`)
    },
    async 'verifies with each curve library that the page allows'() {
      const { fullReport, signers: by } = published.at(-1)
      for (const curveLibrary of ['wasm', 'noble', 'secp256k1']) {
        const verifying = verifyReport(fullReport, { signers, curveLibrary })
        if (curveLibrary === 'noble' || curveLibrary === fastest) {
          const verified = await verifying
          check(String(verified.signers) === String(by), `signed by ${verified.signers}`)
          continue
        }
        const { reason, message } = await failureOf(verifying)
        check(reason === 'curve-library-unavailable', `${curveLibrary}: ${reason}`)
        if (curveLibrary === 'wasm')
          check(/does not compile WebAssembly: .*CSP|Content Security/i.test(message), message)
      }
    },
    async 'checks a proof without a network, and refuses it with another price'() {
      const { fullReport, feedID, decoded } = published.find(({ decoded }) => 'price' in decoded)
      const at = Number(decoded.observationsTimestamp)
      const claim = { kind: 'price', at, field: 'price', value: decoded.price }
      const proof = { format: 'sluice-proof', version: 1, feedID, claim, missing: [] }
      const text = JSON.stringify({ ...proof, reports: [fullReport] })
      const checked = await checkProof(text, { signers })
      check(String(checked.value) === decoded.price, `${checked.value}`)
      const other = text.replace(decoded.price, '1')
      const error = await failureOf(checkProof(other, { signers }))
      check(error.reason === 'value', `${error}`)
    },
    async 'signs as Node does'() {
      const { args, headers } = example
      const made = await generateAuthHeadersAsync(...args)
      check(JSON.stringify(made) === JSON.stringify(headers), JSON.stringify(made))
    },
    async 'reads through a relay, and verifies by itself'() {
      const plugins = [decoders(...allDecoders), dedup(), verify({ signers: network }), retry()]
      await withClient({ endpoint, wsEndpoint, plugins }, async client => {
        const { decoded } = await client.getLatestReport(feeds[0])
        check(decoded.feedID === feeds[0], 'of another feed')
        const stream = client.createStream(feeds)
        const times = []
        for await (const report of stream) {
          check(feeds.includes(report.decoded.feedID), 'of another feed')
          times.push(report.observationsTimestamp)
          if (times.length === 20) break
        }
        const { curveLibrary } = stream.getMetrics().verification
        check(curveLibrary === fastest, `${curveLibrary} verified`)
        await stream.close()
        check(new Set(times).size >= 10, `times ${times}`)
      })
    },
    async 'says that headers need a relay'() {
      const plugins = defaultPreset(credentials)
      const options = { endpoint, wsEndpoint, plugins }
      await withClient(options, async client => {
        const error = await failureOf(client.createStream(feeds[0]).connect())
        check(isStreamsError(error, 'VALIDATION'), `${error}`)
        check(/sends none, and the stack sets authorization/.test(error.message), error.message)
      })
    },
    'refuses what is for Node'() {
      try {
        createClient({ endpoint, wsEndpoint, plugins: [], proxy: 'http://127.0.0.1:1' })
      } catch (error) {
        check(isStreamsError(error, 'VALIDATION'), `${error}`)
        return
      }
      throw new Error('it took a proxy')
    },
    async 'gives up on a refused connection without its reason'() {
      await withClient(
        { endpoint, wsEndpoint: `${wsEndpoint}/refused`, plugins: [] },
        async client => {
          const error = await failureOf(client.createStream(feeds[0]).connect())
          check(isStreamsError(error, 'WS_CONNECT'), `${error.code} ${error}`)
        },
      )
    },
    async 'does not follow a redirect'() {
      await withClient({ endpoint: `${endpoint}/moved`, wsEndpoint, plugins: [] }, async client => {
        const error = await failureOf(client.getLatestReport(feeds[0]))
        check(isStreamsError(error, 'API_STATUS'), `${error.code} ${error}`)
        check(error.message.includes('redirect is not followed'), error.message)
      })
    },
  }
}

async function runChecks() {
  const facts = await (await fetch('/facts')).json()
  const results = []
  for (const [name, run] of Object.entries(checksOf(facts))) {
    const started = performance.now()
    let error
    try {
      await run()
    } catch (thrown) {
      error = String(thrown?.stack ?? thrown)
    }
    results.push({ name, ms: Math.round(performance.now() - started), error })
  }
  return results
}

const body = JSON.stringify({ place, results: await runChecks() })
await fetch('/results', { method: 'POST', body })
