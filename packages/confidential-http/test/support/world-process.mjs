// What a caller talks to, in a process of its own: an external server, a vault, and an enclave that listens.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createKeys, startEnclaveServer } from '@sluice/confidential-http'
import { createVault, openVault } from '@sluice/confidential-http/vault'
import { startHTTPSServer } from '@sluice/engine'
import { startHolders } from './vault-holders.mjs'

const [secrets, otherSecrets] = JSON.parse(process.env.SECRETS)
const directory = mkdtempSync(join(tmpdir(), 'sluice-world-'))
const vault = await createVault(join(directory, 'vault'))
const otherOwner = 'ab'.repeat(20)
const policies = JSON.parse(process.env.POLICIES ?? '{}')
for (const [key, value] of Object.entries(secrets)) {
  await vault.put({ key }, value, { policy: policies[key] ?? 'anywhere' })
}
for (const [key, value] of Object.entries(otherSecrets))
  await vault.put({ key, owner: otherOwner }, value, { policy: 'anywhere' })

let released
let hold = new Promise(resolve => {
  released = resolve
})
const connections = new Set()
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

const server = await startHTTPSServer({
  async handler(request, response) {
    const { socket, method, url, headers } = request
    if (!connections.has(socket)) {
      connections.add(socket)
      socket.once('close', () => connections.delete(socket))
    }
    let body = ''
    for await (const chunk of request) body += chunk
    process.send({ hit: { method, path: url, headers, body } })
    if (url === '/hang') return
    if (url === '/hold') await hold
    if (url === '/redirect') response.writeHead(302, { Location: '/' })
    if (url === '/close') return void socket.destroy()
    if (url === '/trickle') {
      response.writeHead(200)
      while (!response.destroyed) {
        response.write('.')
        await pause(50)
      }
      return
    }
    response.setHeader('X-Answered', 'yes')
    response.end(`an answer of the external server`)
  },
})

const enclaveKeys = createKeys()
const caller = createKeys()
const otherCaller = createKeys()
const lines = []
const log = Object.fromEntries(
  ['debug', 'info', 'warn', 'error', 'connection'].map(level => [
    level,
    (message, facts) => lines.push(`${level} ${message} ${JSON.stringify(facts) ?? ''}`),
  ]),
)
const enclaveOptions = {
  vault: vault.directory,
  secretKey: enclaveKeys.secretKey,
  callers: { [caller.publicKey]: vault.owner, [otherCaller.publicKey]: otherOwner },
  network: { loopback: true },
  stack: new URL('./faulty-stack.cjs', import.meta.url).href,
  // Where a request is to succeed, a slow machine must not make it fail.
  limits: { maxTimeout: 90_000, defaultTimeout: 90_000 },
  audit: { file: join(directory, 'audit.jsonl') },
  callerLimits: JSON.parse(process.env.CALLER_LIMITS ?? '{}'),
  log,
}
// With an environment for them, the vault's holders are processes.
const holders =
  process.env.HOLDERS === undefined
    ? []
    : await startHolders({
        ...{ directory, writer: vault.writerKey, caller: enclaveKeys.publicKey },
        env: JSON.parse(process.env.HOLDERS),
      })
if (holders.length > 0) await vault.reshare({ addresses: holders.map(({ address }) => address) })

/** The life of the vault's key goes on while the enclave runs. */
async function changeKey() {
  const writer = await openVault(vault.directory, { callerSecretKey: enclaveKeys.secretKey })
  const { leftOut } = await writer.reshare()
  await writer.rotate()
  return leftOut
}

let enclave = await startEnclaveServer(enclaveOptions)
const port = Number(new URL(enclave.url).port)

process.on('message', async message => {
  if (message === 'release') {
    released()
    hold = new Promise(resolve => {
      released = resolve
    })
  } else if (message === 'restart') {
    await enclave.close()
    enclave = await startEnclaveServer({ ...enclaveOptions, port })
    process.send({ restart: enclave.url })
  } else if (message === 'startAnother') {
    const { url } = await startEnclaveServer({ ...enclaveOptions, audit: undefined })
    process.send({ startAnother: url })
  } else if (message === 'connections') process.send({ connections: connections.size })
  else if (message === 'lines') process.send({ lines })
  else if (message === 'changeKey') process.send({ changeKey: await changeKey() })
  else if (message === 'holders')
    process.send({ holders: holders.map(({ pid, printed }) => ({ pid, printed: printed() })) })
})
process.on('disconnect', () => process.exit())
process.on('exit', () => rmSync(directory, { recursive: true, force: true }))

process.send({
  ready: {
    directory,
    vault: vault.directory,
    owner: vault.owner,
    otherOwner,
    url: server.url,
    ca: server.ca,
    audit: enclaveOptions.audit.file,
    enclaveURL: enclave.url,
    enclavePublicKey: enclave.publicKey,
    callerSecretKey: caller.secretKey,
    otherCallerSecretKey: otherCaller.secretKey,
  },
})
