// A gateway between clients and the engine: it has the keys, and signs every request anew, whoever signed it before.
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { generateAuthHeaders } from 'sluice'

/** What belongs to a connection, and not to the request that goes on. */
const ofConnection = new Set(['host', 'connection', 'keep-alive', 'transfer-encoding'])
const ofKeys = /^(x-)?authorization/

/** Has the world's client go through a gateway; `hasDate: false` takes the header `Date` out of its answers. */
export async function putGatewayInFront(world, { hasDate = true } = {}) {
  const { engine, config } = world
  const { apiKey, userSecret } = config

  async function forward({ method, url, headers: given }, more = {}) {
    const others = Object.entries(given).filter(
      ([name]) => !ofConnection.has(name) && !ofKeys.test(name),
    )
    const target = engine.endpoint + url
    const signed = generateAuthHeaders(apiKey, userSecret, method, target)
    return request(target, {
      method,
      headers: { ...Object.fromEntries(others), ...signed, ...more },
    })
  }

  const headersOf = ({ headers }) =>
    Object.entries(headers).filter(
      ([name]) => name !== 'keep-alive' && (hasDate || name !== 'date'),
    )

  const server = createServer(async (given, answer) => {
    const ours = await forward(given)
    ours.on('error', () => given.destroy())
    ours.on('response', response => {
      answer.sendDate = false
      answer.writeHead(response.statusCode, Object.fromEntries(headersOf(response)))
      response.pipe(answer)
    })
    given.pipe(ours)
  })
  server.on('upgrade', async (given, client) => {
    client.on('error', () => client.destroy())
    const ours = await forward(given, { connection: 'Upgrade' })
    const write = ({ statusCode, statusMessage }, headers) =>
      client.write(
        `HTTP/1.1 ${statusCode} ${statusMessage}\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
      )
    ours.on('error', () => client.destroy())
    ours.on('response', response => {
      write(response, [...headersOf(response), ['connection', 'close']])
      response.pipe(client)
    })
    ours.on('upgrade', (response, service, head) => {
      write(response, headersOf(response))
      client.write(head)
      client.pipe(service).pipe(client)
      for (const [one, other] of [
        [client, service],
        [service, client],
      ]) {
        one.on('error', () => other.destroy())
        one.on('close', () => other.destroy())
      }
    })
    ours.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  world.defer(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address()
  Object.assign(config, {
    endpoint: `http://127.0.0.1:${port}`,
    wsEndpoint: `ws://127.0.0.1:${port}`,
  })
  if (world.isOurs) config.token = 'a-token-of-the-gateway'
}
