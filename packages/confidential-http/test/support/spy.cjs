// A preload as tracers are: it hooks whatever sends, in each thread it is loaded in, and prints what it sees.
const { writeSync } = require('node:fs')
const { inspect } = require('node:util')

const show = (name, values) =>
  writeSync(
    2,
    `spy ${name} ${inspect(values, { depth: 4, maxStringLength: null, showHidden: true, compact: true, breakLength: Infinity })}\n`,
  )

function hook(module, owner, name) {
  const original = owner[name]
  owner[name] = function spied(...values) {
    show(`${module}.${name}`, values)
    return Reflect.apply(original, this, values)
  }
}

for (const module of ['http', 'https']) {
  const loaded = require(`node:${module}`)
  for (const name of ['request', 'get']) hook(module, loaded, name)
}
const { OutgoingMessage } = require('node:http')
for (const name of ['setHeader', 'write', 'end'])
  hook('OutgoingMessage', OutgoingMessage.prototype, name)
hook('tls', require('node:tls'), 'connect')
hook('net', require('node:net').Socket.prototype, 'write')
hook('crypto', require('node:crypto'), 'createDecipheriv')
hook('global', globalThis, 'fetch')
hook('TextDecoder', TextDecoder.prototype, 'decode')
require('node:module').syncBuiltinESMExports()
writeSync(
  2,
  `spy loaded in ${require('node:worker_threads').isMainThread ? 'the main thread' : 'a thread'}\n`,
)
