// A decoder for a version this library does not know: a schema, and the type of the decoded report
// follows from it.

import { startDataEngine } from '@sluice/engine'
import { createClient, defaultPreset, defineDecoder } from 'sluice'

const v42 = defineDecoder({
  version: 42,
  fields: { price: 'int192', updatedAt: 'uint64', halted: 'bool' },
})

const feedID = `0x002a${'ab'.repeat(30)}`
const engine = await startDataEngine({
  replay: [{ feedID, fullReport: encodeReport() }],
  intervalMs: 0,
})
const { apiKey, userSecret, endpoint, wsEndpoint } = engine

const client = createClient({
  endpoint,
  wsEndpoint,
  plugins: [{ name: 'v42', decoders: [v42] }, ...defaultPreset({ apiKey, userSecret })],
})
console.log(String(client.stack))

const stream = client.createStream(feedID)
const arrived = new Promise<void>(resolve => {
  stream.once('report', ({ decoded }) => {
    if (decoded.version === 'V42') {
      const price: bigint = decoded.price
      const halted: boolean = decoded.halted
      console.log({ price, halted, updatedAt: decoded.updatedAt })
    }
    resolve()
  })
})
await stream.connect()
engine.replayNext()
await arrived

await client.close()
await engine.close()

/**
 * A report of version 42 in the words of its encoding. It has no signatures: nothing here verifies
 * them.
 */
function encodeReport(): string {
  const word = (value: number | bigint): string => value.toString(16).padStart(64, '0')
  const time = 1_753_900_000
  const fields = [word(31_415n * 10n ** 14n), word(1_753_900_000_123_456_789n), word(1)]
  const blob = [
    feedID.slice(2),
    word(time),
    word(time),
    word(0),
    word(0),
    word(time + 86_400),
    ...fields,
  ]
  const afterBlob = 8 + blob.length
  const offsets = [word(7 * 32), word(afterBlob * 32), word((afterBlob + 1) * 32), word(0)]
  return `0x${[word(0), word(0), word(0), ...offsets, word(blob.length * 32), ...blob, word(0), word(0)].join('')}`
}
