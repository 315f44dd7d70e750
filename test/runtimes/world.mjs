// What the steps act on, in this process: an engine with one origin, one with two, and a WebSocket server that notes how it
// was left. A program in another runtime asks it by HTTP.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startDataEngine } from '@sluice/engine'
import { decodeAbiParameters } from 'viem'
import { WebSocketServer } from 'ws'
import { root } from '../package/steps.mjs'
import { isPortable } from '../support/portable.mjs'

const readJSON = path => JSON.parse(readFileSync(join(root, path), 'utf8'))

const connectionOf = ({ endpoint, wsEndpoint, apiKey, userSecret }) => ({
  endpoint,
  wsEndpoint,
  apiKey,
  userSecret,
})

const outer = ['bytes32[3]', 'bytes', 'bytes32[]', 'bytes32[]', 'bytes32'].map(type => ({ type }))

/** A report of each version, with its fields as viem reads them by the schemas of others. */
function readByOthers(engine) {
  const { versions } = readJSON('test/vectors/report-schemas.json')
  const names = Object.keys(versions).filter(name => name !== 'V1')
  return names.map(version => {
    const fields = versions[version].fields.map(line => {
      const [type, name] = line.split(' ')
      return { type, name: name === 'feedId' ? 'feedID' : name }
    })
    const prefix = `0x${Number(version.slice(1)).toString(16).padStart(4, '0')}`
    const { feedID, fullReport } = engine.ledger().find(report => report.feedID.startsWith(prefix))
    const values = decodeAbiParameters(fields, decodeAbiParameters(outer, fullReport)[1])
    const decoded = fields.map(({ name }, at) => [name, String(values[at])])
    return { version, feedID, fullReport, decoded: Object.fromEntries(decoded) }
  })
}

/** Accepts every upgrade and sends nothing; `closeCodes` has how each connection was closed. */
async function startMuteServer() {
  const closeCodes = []
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  server.on('connection', socket => socket.on('close', code => closeCodes.push(code)))
  await new Promise(resolve => server.once('listening', resolve))
  return {
    url: `ws://127.0.0.1:${server.address().port}`,
    closeCodes,
    close: () => server.close(),
  }
}

function createCommands({ single, pair, mute }) {
  const originOf = id => pair.origins.find(origin => origin.id === id)
  return {
    fail: failure => void single.fail(failure),
    /** A second in which nothing listens, and reports are published all the same. */
    async outage() {
      await single.stop()
      await sleep(1000)
      await single.start()
    },
    timesOf: feedID =>
      single.ledger().flatMap(each => (each.feedID === feedID ? each.observationsTimestamp : [])),
    kill: id => originOf(id).kill(),
    restart: id => originOf(id).restart(),
    connections: () => pair.origins.map(({ connections }) => connections),
    closeCodes: () => mute.closeCodes.splice(0),
  }
}

async function startControl(commands) {
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const { command, argument } = JSON.parse(body)
    const result = await commands[command](argument)
    response.setHeader('Connection', 'close').end(JSON.stringify(result ?? null))
  })
  server.listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  return server
}

/** Starts it; `url` is where a program asks for its facts, and for what is to happen. */
export async function startWorld() {
  const options = { intervalMs: 100 }
  const [single, pair, mute] = await Promise.all([
    startDataEngine(options),
    startDataEngine({ ...options, origins: 2, seed: 2 }),
    startMuteServer(),
  ])
  const { exports } = readJSON('package.json')
  const { reports: published } = readJSON('test/vectors/published-reports.json')
  const facts = {
    single: connectionOf(single),
    pair: connectionOf(pair),
    mute: mute.url,
    // Those in milliseconds: the others have a report a second.
    feeds: single.feeds.filter(id => id.startsWith('0x1')),
    network: single.network,
    byOthers: readByOthers(single),
    published,
    publishedNetwork: {
      f: 1,
      signers: [...new Set(published.flatMap(({ signers }) => signers))],
    },
    entries: Object.keys(exports)
      .filter(isPortable)
      .map(entry => `sluice${entry.slice(1)}`),
  }
  const control = await startControl({
    ...createCommands({ single, pair, mute }),
    facts: () => facts,
  })
  return {
    url: `http://127.0.0.1:${control.address().port}`,
    async close() {
      control.close()
      mute.close()
      await Promise.all([single.close(), pair.close()])
    },
  }
}
