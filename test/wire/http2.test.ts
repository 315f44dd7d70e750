import { once } from 'node:events'
import { createSecureServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { expect, test } from '@jest/globals'
import { createCertificateAuthority } from '@sluice/engine'
import { Agent, fetch as undiciFetch } from 'undici'
import { createClient } from '../../index.js'
import { closeAfterEach } from '../support/closing.js'
import { published } from '../support/report/signed-reports.js'

const closers = closeAfterEach()
const { feedID, fullReport } = published(0)

test('requests go by HTTP/2, over one connection, where the dispatcher of a fetch offers it', async () => {
  const { ca, issue } = await createCertificateAuthority()
  const { cert, key } = issue({ hosts: ['127.0.0.1'] })
  const server = createSecureServer({ cert, key, allowHTTP1: true })
  const versions: string[] = []
  let connections = 0
  server.on('secureConnection', () => connections++)
  server.on('request', (request, response) => {
    versions.push(request.httpVersion)
    response.end(JSON.stringify({ report: { feedID, fullReport } }))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const dispatcher = new Agent({ allowH2: true, connect: { ca } })
  const endpoint = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = createClient({
    ...{ apiKey: 'key', userSecret: 'secret', endpoint, wsEndpoint: 'wss://127.0.0.1:1' },
    fetch: ((url: string, init: object) => undiciFetch(url, { ...init, dispatcher })) as never,
  })
  closers.push(
    () => server.close(),
    () => dispatcher.destroy(),
    () => client.close(),
  )
  for (let round = 0; round < 3; round++)
    expect(await client.getLatestReport(feedID)).toMatchObject({ feedID, fullReport })
  expect(versions).toEqual(['2.0', '2.0', '2.0'])
  expect(connections).toBe(1)
})
