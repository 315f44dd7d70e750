import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals'
import { createHttp, type Fetch, type HttpAnswer } from '../../client/transport/http.js'
import { failureOf } from '../support/waiting.js'

let server: Server
let connections = 0
/** The body of the next answer, in the pieces that it is sent in. */
let pieces: string[] = []

beforeAll(async () => {
  server = createServer(async (_request, response) => {
    for (const piece of pieces) {
      response.write(piece)
      await new Promise(resolve => setTimeout(resolve, 20))
    }
    response.end()
  })
  server.on('connection', () => connections++)
  await once(server.listen(0, '127.0.0.1'), 'listening')
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const ask = (fetch?: Fetch, maxBytes = 100): Promise<HttpAnswer> =>
  createHttp(fetch)(
    {
      method: 'GET',
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/?a=b`,
      headers: new Headers({ authorization: 'key' }),
      signal: new AbortController().signal,
    },
    maxBytes,
  )

test('requests one after the other go over connections that stay open', async () => {
  for (pieces of [['one'], ['two'], [], ['three'], ['four'], ['five'], ['six']])
    expect(Buffer.from((await ask()).body).toString()).toBe(pieces.join(''))
  // Node opens another for the second request, which comes before it has put the first away.
  expect(connections).toBeLessThanOrEqual(2)
})

test('a body in pieces is put together, and is not read past its limit', async () => {
  pieces = ['ab', 'cde', 'f']
  expect(Buffer.from((await ask()).body).toString()).toBe('abcdef')
  const error = await failureOf(ask(undefined, 5))
  expect(error.message).toMatch(/body is longer than 5 bytes/)
})

test('ky makes the request, unless a fetch is given, which gets the URL and the options', async () => {
  pieces = ['{}']
  const platform = jest.spyOn(globalThis, 'fetch')
  await ask()
  const [request] = platform.mock.calls[0] as [Request]
  platform.mockRestore()
  expect(request).toBeInstanceOf(Request)
  expect(request.headers.get('authorization')).toBe('key')
  expect(request.redirect).toBe('manual')

  const own = jest.fn<Fetch>(fetch)
  await ask(own)
  const [url, init] = own.mock.calls[0] ?? []
  expect(url).toMatch(/^http.*\?a=b$/)
  expect(init).toMatchObject({ method: 'GET', redirect: 'manual' })
})
