// An ES module that uses both forms of the package, as an app does whose company has a CommonJS preset. Prints what it sees.
import { createRequire } from 'node:module'
import { startDataEngine } from '@sluice/engine'
import * as esm from 'sluice'

const cjs = createRequire(import.meta.url)('sluice')
const engine = await startDataEngine({ history: 3 })
const { apiKey, userSecret, endpoint, wsEndpoint, network } = engine
const feed = engine.feeds.find(id => id.startsWith('0x0003'))
const strangers = { signers: [1, 2, 3, 4].map(each => `0x${String(each).repeat(40)}`), f: 1 }

const clients = []
const messageOf = work => {
  try {
    work()
    return 'nothing'
  } catch (thrown) {
    return thrown.message
  }
}
/** The classes of both forms that a value is an instance of. */
const classesOf = value =>
  [esm, cjs].map(form =>
    Object.keys(form)
      .filter(name => typeof form[name] === 'function' && form[name].prototype !== undefined)
      .filter(name => value instanceof form[name])
      .sort(),
  )

async function tryForms(app, preset) {
  const open = plugins => {
    const client = app.createClient({ endpoint, wsEndpoint, plugins })
    clients.push(client)
    return client
  }
  const keys = { apiKey, userSecret }
  const client = open(preset.haPreset({ ...keys, verify: { signers: network } }))
  const report = await client.getLatestReport(feed)
  const again = await report.verify().then(
    () => 'resolves',
    thrown => thrown.message,
  )
  const stream = client.createStream(feed, { acknowledge: 'manual' })
  await stream.connect()
  const live = await stream.read()
  live.acknowledge()

  const deceived = open(preset.defaultPreset({ ...keys, verify: { signers: strangers } }))
  const error = await deceived.getLatestReport(feed).catch(thrown => thrown)
  const mixed = open([
    app.continuity(),
    preset.dedup(),
    preset.retirement(),
    app.feedAccess(),
    preset.rateLimit(),
    app.decoders(preset.v3),
    preset.retry(),
    app.hmacAuth(keys),
  ])
  const own = mixed.createStream(feed)
  await own.connect()
  return {
    request: [report.verified, again, report.decoded.version],
    live: [live.verified, live.isNewest, live.source],
    report: classesOf(report),
    stream: [esm, cjs].map(form => stream instanceof form.Stream),
    error: [error.reason, ...[esm, cjs].map(form => form.isStreamsError(error, 'VERIFICATION'))],
    errors: classesOf(error),
    mixed: (await own.read()).decoded.version,
    place: messageOf(() => open([preset.dedup(), app.continuity()])),
  }
}

const results = [await tryForms(esm, cjs), await tryForms(cjs, esm)]
for (const client of clients) await client.close()
await engine.close()
console.log(JSON.stringify(results))
