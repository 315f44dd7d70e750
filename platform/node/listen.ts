import type { AddressInfo, Server } from 'node:net'

/**
 * Makes a server listen. Resolves with the authority of its URLs, such as `127.0.0.1:8080`, or
 * rejects with the system's error.
 */
export async function listen(server: Server, port: number, host: string): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    // It stays: an error of a later connection must not end the process.
    server.on('error', reject)
    server.listen(port, host, resolve)
  })
  const { address, family, port: bound } = server.address() as AddressInfo
  return `${family === 'IPv6' ? `[${address}]` : address}:${bound}`
}
