// A relay that inserts bytes which no server would send: whole WebSocket frames of any kind.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/** Stands between clients and a port of this machine. */
export async function startTap({ to, host = '127.0.0.1', port = 0 }) {
  const clients = new Set()
  const server = createServer(client => {
    const service = connect(to, '127.0.0.1')
    clients.add(client)
    for (const [one, other] of [
      [client, service],
      [service, client],
    ]) {
      one.pipe(other)
      one.on('error', () => other.destroy())
      one.on('close', () => other.destroy())
    }
    client.on('close', () => clients.delete(client))
  })
  server.listen(port, host)
  await once(server, 'listening')
  return {
    port: server.address().port,
    inject(bytes) {
      for (const client of clients) client.write(bytes)
    },
    async close() {
      for (const client of clients) client.resetAndDestroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** The text of a report's frame; what is given wins over what is right. */
export const textOf = (
  { feedID, fullReport, validFromTimestamp, observationsTimestamp },
  changes,
) =>
  JSON.stringify({
    report: { feedID, fullReport, validFromTimestamp, observationsTimestamp, ...changes },
  })

/** The bytes of a frame of a server; what is given wins over what is right. */
export function frameOf(payload, { opcode = 1, isFinal = true, rsv = 0, length } = {}) {
  const bytes = Buffer.from(payload)
  const claimed = length ?? bytes.length
  const head = Buffer.alloc(claimed < 126 ? 2 : claimed < 65_536 ? 4 : 10)
  head[0] = (isFinal ? 0x80 : 0) | (rsv << 4) | opcode
  if (claimed < 126) head[1] = claimed
  else if (claimed < 65_536) {
    head[1] = 126
    head.writeUInt16BE(claimed, 2)
  } else {
    head[1] = 127
    head.writeBigUInt64BE(BigInt(claimed), 2)
  }
  return Buffer.concat([head, bytes])
}
