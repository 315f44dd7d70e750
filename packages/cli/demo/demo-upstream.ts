// The server of the demonstration, which runs in its own process. It puts a secret into the vault,
// and runs the HTTPS server that receives the secret. It prints the received header, and sends the
// secret to no other process.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { openVault } from '@sluice/confidential-http/vault'
import { startHTTPSServer } from '@sluice/engine'

const [directory = '', key = ''] = process.argv.slice(2)
const secret = `sk_demo_${randomBytes(12).toString('hex')}`
await (await openVault(directory)).put({ key }, secret, { policy: 'anywhere' })

const { url, ca } = await startHTTPSServer({
  handler(request, response) {
    const { authorization = '' } = request.headers
    const isRight = authorization === `Bearer ${secret}`
    process.stdout.write(
      `server      received “${authorization}”: ${isRight ? 'the secret' : 'NOT the secret'}\n`,
    )
    request.resume()
    response.writeHead(isRight ? 200 : 401, { 'content-type': 'application/json' })
    response.end(JSON.stringify(isRight ? { balance: '1250.00', currency: 'USD' } : {}))
  },
})

/** Counts the occurrences of the secret and of another text in a file. */
process.on('message', ({ file, other }: { file: string; other: string }) => {
  const text = readFileSync(file, 'latin1')
  process.send?.([secret, other].map(each => text.split(each).length - 1))
})
process.on('disconnect', () => process.exit())
process.send?.({ url, ca })
