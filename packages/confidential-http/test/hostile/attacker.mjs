// The hostile caller, in a process of its own: it has as many requests under way as it can.

import { request as requestHTTP } from 'node:http'
import { ConfidentialHTTPClient, createRemoteRuntime } from '@sluice/confidential-http'

const client = new ConfidentialHTTPClient()
let isOver = false
const outcomes = {}
const note = outcome => {
  outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
}
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

/** Posts what opens for nobody, on a new connection each time. */
function postJunk(url) {
  return new Promise(resolve => {
    // From an address of its own.
    const options = { method: 'POST', agent: false, localAddress: '127.0.0.2' }
    const request = requestHTTP(`${url}/v2/requests`, options, response => {
      response.resume()
      response.on('end', () => resolve(note(response.statusCode)))
    })
    request.on('error', error => resolve(note(error.code)))
    request.end(Buffer.alloc(4096, 7))
  })
}

process.on('message', async message => {
  if (message === 'end') {
    isOver = true
    return process.send(outcomes)
  }
  const { runtime: options, way, api, ca, atOnce } = message
  const runtime = createRemoteRuntime(options)
  let count = 0
  const loop = async () => {
    while (!isOver) {
      count++
      if (way === 'strangers') {
        await postJunk(options.url)
        continue
      }
      const request = {
        method: 'GET',
        timeout: '10s',
        url: `${api}${way}`,
        customRootCaCertPem: ca,
      }
      if (way === 'dns') request.url = `https://n${count}.slow.test/`
      if (way === 'templates') {
        request.method = 'POST'
        request.templatePublicValues = Object.fromEntries(
          Array.from({ length: 20 }, (_, index) => [`v${index}`, 'x'.repeat(2000)]),
        )
        request.bodyString = Array.from({ length: 2000 }, (_, index) => `{{.v${index % 20}}}`).join(
          '',
        )
      }
      if (way === 'sizes') request.bodyBytes = Buffer.alloc(60_000, 7).toString('base64')
      if (way === 'sizes') request.method = 'POST'
      try {
        note((await client.sendRequestAsync(runtime, { request })).statusCode)
      } catch (error) {
        note(error.code)
        // The impatient one does not care for Retry-After.
        if (way !== 'impatient') await pause(error.retryAfter ?? 20)
      }
    }
  }
  for (let each = 0; each < atOnce; each++) void loop()
})
