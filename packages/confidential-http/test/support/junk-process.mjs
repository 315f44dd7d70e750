// A stranger: asks an enclave on many connections at once, again as soon as it is answered, and never with an authentic request.
import { Agent, request } from 'node:http'
import { blake2b } from '@noble/hashes/blake2b'
import nacl from 'tweetnacl'

const { url, enclavePublicKey, bootKey, connections, localAddress } = JSON.parse(process.env.JUNK)
const recipient = Uint8Array.from(Buffer.from(bootKey, 'hex'))
const stranger = nacl.box.keyPair()

/** A box as libsodium's crypto_box_seal makes it. */
function seal(message) {
  const fresh = nacl.box.keyPair()
  const nonce = blake2b(Buffer.concat([fresh.publicKey, recipient]), { dkLen: 24 })
  return Buffer.concat([
    fresh.publicKey,
    nacl.box(message, Uint8Array.from(nonce), recipient, fresh.secretKey),
  ])
}
/** Sealed as it should be, by somebody whom the enclave does not know. */
function sealStranger() {
  const nonce = nacl.randomBytes(24)
  const key = Buffer.from(stranger.publicKey).toString('hex')
  const envelope = {
    version: 2,
    enclave: enclavePublicKey,
    id: '0'.repeat(32),
    issuedAt: 1,
    replyTo: key,
  }
  const text = Buffer.from(`Q${JSON.stringify(envelope)}`)
  const box = nacl.box(Uint8Array.from(text), nonce, recipient, stranger.secretKey)
  const inner = Buffer.concat([stranger.publicKey, nonce, box])
  return Buffer.concat([recipient, seal(Uint8Array.from(inner))])
}
const messages = [
  ['/v2/boot-key', Buffer.from(stranger.publicKey)],
  ['/v2/requests', Buffer.concat([recipient, nacl.randomBytes(400)])],
  ['/v2/requests', sealStranger()],
]
const agent = new Agent({ keepAlive: true, maxSockets: connections })
const statuses = {}
let count = 0
function ask() {
  const [path, body] = messages[count++ % messages.length]
  const headers = { 'content-length': body.byteLength }
  const asked = request(
    `${url}${path}`,
    { method: 'POST', agent, headers, localAddress },
    answer => {
      statuses[answer.statusCode] = (statuses[answer.statusCode] ?? 0) + 1
      answer.resume().on('end', () => setImmediate(ask))
    },
  )
  asked.on('error', ({ code }) => {
    statuses[code] = (statuses[code] ?? 0) + 1
    setTimeout(ask, 5)
  })
  asked.end(body)
}
process.on('message', message => {
  if (message === 'start') for (let index = 0; index < connections; index++) ask()
  else process.send({ count, statuses })
})
process.on('disconnect', () => process.exit())
process.send('ready')
