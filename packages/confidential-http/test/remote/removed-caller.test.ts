import { Agent, type IncomingMessage, request as requestHttp } from 'node:http'
import type { Socket } from 'node:net'
import { expect, test } from '@jest/globals'
import { until } from '@sluice/test-support/waiting.js'
import { boxKeys, formatKey } from 'sluice/internal'
import type { Enclave } from '../../enclave/enclave.js'
import { Answering } from '../../remote/answering.js'
import { CallerGuard } from '../../remote/callers.js'
import { listen } from '../../remote/listen.js'
import { openAnswer, sealRequest } from '../../remote/protocol.js'
import { toJSON } from '../../sealed-message.js'

const [keys, caller, replyTo] = [{ enclave: boxKeys(), boot: boxKeys() }, boxKeys(), boxKeys()]
let lastID = 0

function sealed(): Uint8Array {
  const envelope = {
    ...{ version: 2, enclave: formatKey(keys.enclave.publicKey), issuedAt: Date.now() },
    id: String(++lastID).padStart(32, '0'),
    replyTo: formatKey(replyTo.publicKey),
    request: { request: { url: 'https://api.example.com/', method: 'GET' } },
  }
  return sealRequest(toJSON(envelope), keys.boot.publicKey, caller)
}

test('the connection of a caller that was removed is a stranger’s, and is closed after the answer', async () => {
  let owner: string | undefined = '11'.repeat(20)
  const answering = new Answering({
    ...{ keys, limits: new CallerGuard({}), worked: () => 0, log: {} },
    callers: { ownerOf: () => owner, refusal: undefined },
    enclave: { send: async () => ({ statusCode: 200 }) } as unknown as Enclave,
  })
  /** Whose connection it was after each request. */
  const whose: (string | undefined)[] = []
  const watched = Object.assign(Object.create(answering), {
    async request(...[body, sender]: Parameters<Answering['request']>) {
      const answer = await answering.request(body, sender)
      whose.push(sender.caller())
      return answer
    },
  })
  const limits = { maxConnections: 8, maxConnectionsPerAddress: 8, maxSealedBytes: 10_000 }
  const { url, end } = await listen({ host: '127.0.0.1', port: 0 }, watched, limits, undefined, {})
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const sockets = new Set<Socket>()
  async function ask(): Promise<[IncomingMessage, string]> {
    const request = requestHttp(`${url}/v2/requests`, { method: 'POST', agent })
    const answered = new Promise<IncomingMessage>((resolve, reject) =>
      request.on('response', resolve).on('error', reject),
    )
    request.on('socket', socket => sockets.add(socket))
    request.end(sealed())
    const answer = await answered
    const body = Buffer.concat(await answer.toArray())
    return [answer, openAnswer(body, keys.boot.publicKey, replyTo) ?? '']
  }
  try {
    const [{ headers }] = await ask()
    await ask()
    expect([headers.connection, sockets.size]).toEqual(['keep-alive', 1])
    owner = undefined
    const [refused, json] = await ask()
    expect([refused.statusCode, refused.headers.connection]).toEqual([403, 'close'])
    expect(json).toContain('does not know this caller')
    const name = formatKey(caller.publicKey)
    expect([whose, sockets.size]).toEqual([[name, name, undefined], 1])
    await until(() => [...sockets].every(socket => socket.destroyed))
  } finally {
    agent.destroy()
    await end()
    await answering.close()
  }
})
