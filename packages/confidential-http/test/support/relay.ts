import { createServer, request as requestHttp } from 'node:http'
import type { AddressInfo } from 'node:net'

/** An answer that a relay passes on. */
export interface Passed {
  readonly status: number
  readonly body: Buffer
}

/** A request that a relay has taken. */
export interface Taken {
  readonly path: string
  readonly body: Buffer
  /** Passes it on, to `target` or to where the relay leads. */
  forward(target?: string): Promise<Passed>
}

/** Stands between a caller and an enclave, and does with what passes as it likes. */
export interface Relay extends AsyncDisposable {
  readonly url: string
  /** The requests it took. */
  readonly taken: Taken[]
}

/** Starts one. Where `handle` comes to nothing, the connection is dropped. */
export async function startRelay(
  target: string,
  handle: (taken: Taken) => Promise<Passed | undefined>,
): Promise<Relay> {
  const taken: Taken[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', async () => {
      const path = request.url ?? ''
      const body = Buffer.concat(chunks)
      const one: Taken = { path, body, forward: (to = target) => pass(to, path, body) }
      taken.push(one)
      const answer = await handle(one).catch(() => undefined)
      if (answer === undefined) request.socket.destroy()
      else response.writeHead(answer.status).end(answer.body)
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    taken,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

function pass(target: string, path: string, body: Buffer): Promise<Passed> {
  return new Promise((resolve, reject) => {
    const request = requestHttp(
      `${target}${path}`,
      { method: 'POST', agent: false },
      async response => {
        const chunks: Buffer[] = []
        for await (const chunk of response) chunks.push(chunk)
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) })
      },
    )
    request.on('error', reject)
    request.end(body)
  })
}
