// What the enclave costs: the same HTTPS request, bare and through it, in turns, to a server in a process of its own.
import { fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  ConfidentialHTTPClient,
  createKeys,
  createLocalRuntime,
  createRemoteRuntime,
  decryptResponse,
} from '@sluice/confidential-http'
import { createVault } from '@sluice/confidential-http/vault'
import { spread } from './rounds.mjs'
import { atLeast, atMost, perSecond } from './table.mjs'

const ROUNDS = 300
const WARMUP = 30
const GOAL_MS = 8
const GOAL_RATE = 300
/** Of the requests at once: a runtime has one thread, so there are two. */
const RATE_ROUNDS = 9
const REQUESTS = 200
const AT_ONCE = 16
const CORES = 2
const SECRET = 'a-secret-of-an-ordinary-length'
const AES_KEY = '7'.repeat(64)
const BODY = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', params: [] })

export default async function bench() {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  const vault = await createVault(join(directory, 'vault'))
  await vault.put({ key: 'token' }, SECRET, { policy: 'anywhere' })
  await vault.put({ key: 'san_marino_aes_gcm_encryption_key' }, AES_KEY, { policy: 'anywhere' })
  const enclave = createKeys()
  const caller = createKeys()
  const servers = fork(fileURLToPath(new URL('./confidential-http-servers.mjs', import.meta.url)), [
    vault.directory,
    enclave.secretKey,
    caller.publicKey,
    vault.owner,
  ])
  const { url, ca, enclaveURL } = await new Promise(resolve => servers.once('message', resolve))
  const local = createLocalRuntime({ vault })
  const remote = createRemoteRuntime({
    url: enclaveURL,
    enclavePublicKey: enclave.publicKey,
    callerSecretKey: caller.secretKey,
  })
  const client = new ConfidentialHTTPClient()
  const input = ({ secrets = ['token'], authorization = 'Bearer {{.token}}', ...rest } = {}) => ({
    vaultDonSecrets: secrets.map(key => ({ key })),
    request: {
      url,
      method: 'POST',
      bodyString: BODY,
      multiHeaders: { Authorization: { values: [authorization] } },
      customRootCaCertPem: ca,
      ...rest,
    },
  })
  const both = ['token', 'san_marino_aes_gcm_encryption_key']
  const ways = {
    'one bare HTTPS request': () => bare(url, ca),
    'one request through the enclave, without a secret': () =>
      client.sendRequestAsync(local, input({ secrets: [], authorization: `Bearer ${SECRET}` })),
    'one request through the enclave, with one secret': () =>
      client.sendRequestAsync(local, input()),
    'one request through the enclave, with one secret, as a blocking call': async () =>
      client.sendRequest(local, input()).result(),
    'one request through the enclave, with one secret and an answer that is encrypted and decrypted':
      async () => {
        const answer = await client.sendRequestAsync(
          local,
          input({ secrets: both, encryptOutput: true }),
        )
        await decryptResponse(answer.body, AES_KEY)
      },
    'one request through a remote enclave, with one secret': () =>
      client.sendRequestAsync(remote, input()),
  }
  const times = Object.fromEntries(Object.keys(ways).map(name => [name, []]))
  for (let round = -WARMUP; round < ROUNDS; round++) {
    for (const [name, way] of Object.entries(ways)) {
      const start = performance.now()
      await way()
      if (round >= 0) times[name].push(performance.now() - start)
    }
  }
  const second = createLocalRuntime({ vault })
  const rates = await requestsAtOnce(at =>
    client.sendRequestAsync(at % CORES === 0 ? local : second, input()),
  )
  await local.close()
  await second.close()
  await remote.close()
  servers.kill()
  rmSync(directory, { recursive: true })

  const bareTimes = [...times['one bare HTTPS request']]
  const over = times['one request through the enclave, with one secret'].map(
    (time, round) => time - bareTimes[round],
  )
  const sorted = Object.values(times).map(list => list.sort((one, other) => one - other))
  const at = (list, share) => list[Math.min(list.length - 1, Math.floor(list.length * share))]
  const [base] = sorted
  console.log(
    `${ROUNDS} rounds, each way once a round, a new connection for every request; vault of 3 holders, 2 needed`,
  )
  const ms = value => `${value.toFixed(1)} ms`
  const goals = [
    {
      work: 'time that the enclave and one secret add to a bare request',
      ...atMost(GOAL_MS, spread(over), ' ms'),
      detail: 'the difference is taken within each round',
    },
    {
      work: `requests a second with one secret each, ${AT_ONCE} requests at a time, on ${CORES} cores`,
      ...atLeast(GOAL_RATE, spread(rates.map(({ byProcessor }) => byProcessor)), '/s'),
      detail: `by processor time; ${perSecond(spread(rates.map(({ byClock }) => byClock)).median)} by the clock, with the server on the same cores`,
    },
  ]
  const figures = Object.keys(ways).map((work, index) => {
    const list = sorted[index]
    const over =
      index === 0 ? '' : `${ms(at(list, 0.5) - at(base, 0.5))} more than the bare request`
    const numbers = { median: at(list, 0.5), unit: 'ms', better: 'less' }
    const rest = { goal: '', isMet: undefined, detail: over, ...numbers }
    return {
      ...{ work, figure: ms(at(list, 0.5)), spread: `99 of 100 within ${ms(at(list, 0.99))}` },
      ...rest,
    }
  })
  return [...figures, ...goals]
}

/**
 * How many requests in a second two cores carry out. By processor time, that of this process, which the enclaves' threads are of:
 * what others do on the machine does not count, nor what the server does.
 */
async function requestsAtOnce(send) {
  const rates = []
  for (let round = -1; round < RATE_ROUNDS; round++) {
    let next = 0
    const start = performance.now()
    const cpu = process.cpuUsage()
    const work = async () => {
      while (next < REQUESTS) await send(next++)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    const { user, system } = process.cpuUsage(cpu)
    const byClock = (REQUESTS * 1000) / (performance.now() - start)
    const byProcessor = (REQUESTS * CORES * 1e6) / (user + system)
    if (round >= 0) rates.push({ byClock, byProcessor })
  }
  return rates
}

function bare(url, ca) {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${SECRET}`, 'content-length': String(BODY.length) }
    const sent = request(url, { method: 'POST', agent: false, ca, headers }, answer => {
      const chunks = []
      answer.on('data', chunk => chunks.push(chunk))
      answer.on('end', () => resolve(Buffer.concat(chunks)))
      answer.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(BODY)
  })
}
