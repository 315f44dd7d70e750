// A caller that looks for what it must not have: it writes its heap, its buffers and everything it received to files.
const { createHash } = require('node:crypto')
const { writeFileSync } = require('node:fs')
const { Session } = require('node:inspector')
const { join } = require('node:path')
const { inspect } = require('node:util')
const { writeHeapSnapshot } = require('node:v8')
const {
  ConfidentialHTTPClient,
  createLocalRuntime,
  createRemoteRuntime,
} = require('@sluice/confidential-http')

const { kind, folder, input, local, remote, marker } = JSON.parse(process.env.CALLER)

/** Snapshots show strings, but of buffers only their size. */
function look(moment) {
  writeHeapSnapshot(join(folder, `${moment}.heapsnapshot`))
  const session = new Session()
  session.connect()
  const post = (method, parameters) => {
    let outcome
    session.post(method, parameters, (error, result) => {
      outcome = { error, result }
    })
    if (outcome.error) throw new Error(outcome.error.message)
    return outcome.result
  }
  const { result } = post('Runtime.evaluate', { expression: 'ArrayBuffer.prototype' })
  const { objects } = post('Runtime.queryObjects', { prototypeObjectId: result.objectId })
  globalThis.keepBuffers = buffers =>
    writeFileSync(
      join(folder, `${moment}.buffers`),
      Buffer.concat(buffers.map(each => Buffer.from(each))),
    )
  post('Runtime.callFunctionOn', {
    objectId: objects.objectId,
    functionDeclaration: 'function () { globalThis.keepBuffers(this) }',
  })
  session.disconnect()
}

const seen = []
const note = value =>
  seen.push(
    inspect(value, {
      depth: Infinity,
      showHidden: true,
      getters: true,
      maxStringLength: null,
      maxArrayLength: null,
    }),
  )
let onLine = () => {}
const write = (...line) => {
  note(line)
  onLine(...line)
}
const logger = { debug: write, info: write, warn: write, error: write }
const until = word =>
  new Promise(resolve => process.on('message', said => said === word && resolve()))
process.on('unhandledRejection', error => note(['unhandled', error]))
process.on('uncaughtException', error => note(['uncaught', error]))

async function main() {
  const digest = word =>
    createHash('sha256')
      .update(word + marker)
      .digest('hex')
  const planted = { text: digest('text'), bytes: Buffer.from(digest('bytes')) }
  look('planted')
  planted.text = planted.bytes.fill(0) && ''

  const logging = { logger, logLevel: 0, enableConnectionDebug: true }
  const runtime =
    kind === 'local'
      ? createLocalRuntime({ ...local, logging })
      : createRemoteRuntime({ ...remote, logging })
  const client = new ConfidentialHTTPClient()
  const to = (path, request) => ({
    ...input,
    request: { ...input.request, url: input.request.url + path, ...request },
  })

  const held = client.sendRequestAsync(runtime, to('hold'))
  await until('held')
  look('during')
  // So many at once that a limit ends some.
  const many = Array.from({ length: 4 }, () => client.sendRequestAsync(runtime, to('')))
  note(await Promise.allSettled(many))
  process.send('release')
  note(await held)
  look('after')

  let looked = false
  onLine = () => {
    if (!looked) look('blocking')
    looked = true
  }
  const sent = client.sendRequest(runtime, to(''))
  const response = sent.result()
  if (kind === 'remote') onLine()
  note([runtime, client, sent, response])
  note(client.sendRequest(runtime, to('', { encryptOutput: true })).result())

  const bad = [
    to('throw'),
    ...(kind === 'local' ? [to('throw-later'), to('reject-later'), to('function')] : []),
    to('', { bodyString: '{{.nothing}}{{.apiKey}}' }),
    to('', { multiHeaders: { a: { values: ['{{.apiKey}}\n'] } } }),
    to('', { customRootCaCertPem: undefined }),
    to('', { timeout: '100s' }),
    { ...to(''), vaultDonSecrets: [{ key: 'absent' }] },
    to('hang', { timeout: '200ms' }),
  ]
  for (const each of bad) {
    for (const attempt of [
      () => client.sendRequest(runtime, each).result(),
      () => client.sendRequestAsync(runtime, each),
    ]) {
      try {
        note(await attempt())
      } catch (error) {
        note([error, error.message, error.stack, error.cause, error.toString(), { ...error }])
      }
    }
  }
  look('end')
  writeFileSync(join(folder, 'output'), seen.join('\n'))
  process.send('ready')
  await until('go')
  await runtime.close()
  process.disconnect()
}
void main()
