// The server of the hostile caller, in a process of its own. The path says how it answers.
import { createSocket } from 'node:dgram'
import { createServer } from 'node:tls'
import { gzipSync } from 'node:zlib'

const MAX = 499_000
const head = (...lines) => `${['HTTP/1.1 200 OK', ...lines].join('\r\n')}\r\n\r\n`
const plain = (body, ...lines) =>
  Buffer.concat([Buffer.from(head(`content-length: ${body.length}`, ...lines)), body])
const chunks = Buffer.concat([
  Buffer.from(head('transfer-encoding: chunked')),
  ...Array(MAX).fill(Buffer.from('1\r\nx\r\n')),
  Buffer.from('0\r\n\r\n'),
])
const bomb = plain(gzipSync(Buffer.alloc(200_000_000)), 'content-encoding: gzip')
const large = plain(Buffer.alloc(MAX, 'x'))
const lines = Buffer.from(
  head(
    ...Array.from({ length: 1900 }, (_, index) => `x${index}: %41&#65;\\u0041`),
    'content-length: 0',
  ),
)

/** What each path is answered with. */
const answers = {
  chunks: socket => socket.write(chunks),
  records(socket) {
    socket.setNoDelay(true)
    socket.write(head(`content-length: ${MAX}`))
    let left = MAX
    // As fast as they are read, and no faster: the memory and the processor here are the enclave's, too.
    const write = () => {
      let goesOn = true
      for (let count = 0; count < 500 && left > 0 && goesOn; count++, left--)
        goesOn = socket.write('x')
      if (left > 0 && goesOn) setImmediate(write)
    }
    socket.on('drain', write)
    write()
  },
  slow(socket) {
    socket.write(head(`content-length: ${MAX}`))
    const timer = setInterval(() => socket.write('x'), 50)
    socket.on('close', () => clearInterval(timer))
  },
  bomb: socket => socket.write(bomb),
  redirect: socket =>
    socket.write('HTTP/1.1 302 Found\r\nlocation: https://localhost/\r\ncontent-length: 0\r\n\r\n'),
  large: socket => socket.write(large),
  lines: socket => socket.write(lines),
  plain: socket => socket.write(plain(Buffer.from('ok'))),
}

process.once('message', ({ cert, key }) => {
  const server = createServer({ cert, key }, socket => {
    socket.on('error', () => undefined)
    let request = ''
    socket.on('data', data => {
      request += data
      if (!request.includes('\r\n\r\n')) return
      const answer = answers[/^\w+ \/(\w*)/.exec(request)?.[1]] ?? answers.plain
      request = ''
      answer(socket)
    })
  })
  server.on('tlsClientError', () => undefined)
  // A name server that never answers.
  const dns = createSocket('udp4')
  dns.bind(0, '127.0.0.1', () =>
    server.listen(0, '127.0.0.1', () =>
      process.send({ port: server.address().port, dns: dns.address().port }),
    ),
  )
})
