import { createSocket } from 'node:dgram'
import dns from 'node:dns'
import { type AddressInfo, createServer, isIP, type Socket } from 'node:net'

export const SERVFAIL = 2
export const NXDOMAIN = 3
export const REFUSED = 5

/** What is answered: addresses of any family, a code, or nothing at all. A long answer comes over TCP. */
type Answer = readonly string[] | number | 'silence'

export interface NameServer {
  /** The names that were asked for, in lower case, each with 4 or 6 for the family. */
  readonly questions: string[]
  /** Stops. Look-ups still ask it. */
  stop(): void
  /** Stops. Look-ups ask the servers of before. */
  close(): void
}

/** The longest answer over UDP. */
const MAX_DATAGRAM = 512
const HEAD = 12

/** Starts a name server, which all look-ups of this process ask until it is closed. */
export async function startNameServer(answer: (name: string) => Answer): Promise<NameServer> {
  const questions: string[] = []
  const before = dns.getServers()
  const open = new Set<Socket>()
  const udp = createSocket('udp4')
  const tcp = createServer(socket => {
    open.add(socket)
    socket.on('error', () => undefined)
    let rest = Buffer.alloc(0)
    socket.on('data', chunk => {
      rest = Buffer.concat([rest, chunk])
      while (rest.length >= 2 && rest.length >= 2 + rest.readUInt16BE()) {
        const end = 2 + rest.readUInt16BE()
        const said = reply(rest.subarray(2, end)) ?? Buffer.alloc(0)
        const length = Buffer.alloc(2)
        length.writeUInt16BE(said.length)
        socket.write(Buffer.concat([length, said]))
        rest = rest.subarray(end)
      }
    })
  })
  await new Promise<void>(resolve => tcp.listen(0, '127.0.0.1', resolve))
  const { port } = tcp.address() as AddressInfo

  function reply(message: Buffer): Buffer | undefined {
    const labels: string[] = []
    let at = HEAD
    for (let length = message[at]; length; length = message[at]) {
      labels.push(message.toString('latin1', at + 1, at + 1 + length))
      at += 1 + length
    }
    const type = message.readUInt16BE(at + 1)
    const name = labels.join('.').toLowerCase()
    questions.push(`${name} ${type === 1 ? 4 : 6}`)
    const given = answer(name)
    if (given === 'silence') return undefined
    const found =
      typeof given === 'number' ? [] : given.filter(each => isIP(each) === (type === 1 ? 4 : 6))
    const head = Buffer.from(message.subarray(0, HEAD))
    head.writeUInt16BE(0x8180 | (typeof given === 'number' ? given : 0), 2)
    head.writeUInt16BE(1, 4)
    head.writeUInt16BE(found.length, 6)
    head.writeUInt32BE(0, 8)
    const records = found.map(address => {
      const data = bytesOf(address)
      const record = Buffer.alloc(12)
      record.writeUInt16BE(0xc000 | HEAD, 0)
      record.writeUInt16BE(type, 2)
      record.writeUInt16BE(1, 4)
      record.writeUInt16BE(data.length, 10)
      return Buffer.concat([record, data])
    })
    return Buffer.concat([head, message.subarray(HEAD, at + 5), ...records])
  }

  udp.on('message', (message, { port: to, address }) => {
    const said = reply(message)
    if (said === undefined) return
    if (said.length <= MAX_DATAGRAM) return udp.send(said, to, address)
    // The head with the mark of an answer that was cut off, and the question.
    const cut = Buffer.from(said.subarray(0, said.indexOf(0, HEAD) + 5))
    cut.writeUInt16BE(0x8380, 2)
    cut.writeUInt16BE(0, 6)
    udp.send(cut, to, address)
  })
  await new Promise<void>(resolve => udp.bind(port, '127.0.0.1', resolve))
  dns.setServers([`127.0.0.1:${port}`])
  let isOpen = true
  function stop(): void {
    if (!isOpen) return
    isOpen = false
    for (const socket of open) socket.destroy()
    tcp.close()
    udp.close()
  }
  return {
    questions,
    stop,
    close() {
      dns.setServers(before)
      stop()
    },
  }
}

function bytesOf(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split('.').map(Number))
  const [head = '', tail = ''] = address.split('::')
  const [from, to] = [head, tail].map(part => (part === '' ? [] : part.split(':'))) as [
    string[],
    string[],
  ]
  const groups = [...from, ...Array<string>(8 - from.length - to.length).fill('0'), ...to]
  return Buffer.from(groups.map(group => group.padStart(4, '0')).join(''), 'hex')
}
