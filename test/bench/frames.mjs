// Frames of a stream, made beforehand: real V3 reports whose envelope and blob agree. Only the times in them are written
// when they are sent, which takes a few copies of bytes, so that each is new and begins where the one before ended.
import { fromSource } from './from-source.mjs'

const { encodeBlob, encodeFullReport, reportSchema } = await fromSource('packages/engine/encode')

/** The time of the first report, in seconds. Far on there are still ten decimal and eight hexadecimal digits. */
export const START = 1_700_000_000
/** The service's own reports of today have two signatures as well. */
const SIGNATURES = 2
const WINDOW = 640

/** The id of the n-th feed of a version: a hash, but for the version. */
export const feedID = (index, version = 3) =>
  `0x000${version.toString(16)}${createWords(index + 1)().slice(4)}`

export const feedIDs = count => Array.from({ length: count }, (_, index) => feedID(index))

/** Random words from a seed (mulberry32), in hex. */
function createWords(seed) {
  let state = seed | 0
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
  return () => Array.from({ length: 8 }, () => next().toString(16).padStart(8, '0')).join('')
}

/** Makes the values of one report, of the sizes that reports have; a decoder's time depends on them. */
function createValues(time, seed) {
  const word = createWords(seed)
  const between = (least, most) => least + (BigInt(`0x${word()}`) % (most - least))
  let signed = seed

  function makeLong(name) {
    if (/volume/i.test(name)) return between(10n ** 18n, 10n ** 19n)
    // Of a contract: in seconds. All others are in nanoseconds.
    if (/expiry|notice/i.test(name)) return BigInt(time) + between(10n ** 6n, 10n ** 7n)
    return BigInt(time) * 1_000_000_000n + between(0n, 10n ** 9n)
  }

  return {
    word,
    makeValue({ name, type }) {
      // 18 decimals: 72 to 80 bits. Of three in a row one is negative.
      if (type === 'int192') return between(2n ** 71n, 2n ** 80n) * (signed++ % 3 === 1 ? -1n : 1n)
      if (type === 'uint192') return between(10n ** 14n, 10n ** 16n)
      if (type === 'uint64') return makeLong(name)
      if (/status|ripcord/i.test(name)) return 1
      return /time/i.test(name) ? time : Number(between(1n, 13n))
    },
  }
}

/** A report whose values are like those of the service; nobody looks at the signatures. */
export function makeReport({ id = feedID(0), version = 3, time = START, seed = 1 }) {
  const { word, makeValue } = createValues(time, seed)
  const times = { validFromTimestamp: time, observationsTimestamp: time, expiresAt: time + 86_400 }
  const values = { feedId: id, ...times }
  for (const field of reportSchema(version, 's'))
    if (!(field.name in values)) values[field.name] = makeValue(field)
  const words = count => Array.from({ length: count }, () => word())
  const fullReport = encodeFullReport({
    context: [word(), word(), word()],
    blob: encodeBlob(reportSchema(version, 's'), values),
    rs: words(SIGNATURES),
    ss: words(SIGNATURES),
    vs: '00'.repeat(32),
  })
  return { feedID: id, fullReport, validFromTimestamp: time, observationsTimestamp: time }
}

/** The message that carries a report, as the service writes it. */
export const makeMessage = report => Buffer.from(JSON.stringify({ report }))

/** A server's binary WebSocket frame. */
function frameOf(message) {
  const head = Buffer.from([0x82, 126, message.length >> 8, message.length & 255])
  return Buffer.concat([head, message])
}

/**
 * So many frames, all of one length, lying one behind the other: a frame of each feed for the first second, then one of
 * each for the next, and so on. `setTime` writes their times from that second on.
 */
export function createLap(ids) {
  const ticks = Math.max(1, Math.ceil(WINDOW / ids.length))
  const frames = Array.from({ length: ticks * ids.length }, (_, index) =>
    frameOf(makeMessage(makeReport({ id: ids[index % ids.length], seed: index }))),
  )
  const buffer = Buffer.concat(frames)
  const [{ length }] = frames
  const hex = START.toString(16).padStart(64, '0')
  const inBlob = frames[0].indexOf(hex) + 56
  const inEnvelope = [`"validFromTimestamp":`, `"observationsTimestamp":`].map(
    name => frames[0].indexOf(name) + name.length,
  )

  function setTime(first) {
    for (let tick = 0; tick < ticks; tick++) {
      const hexadecimal = Buffer.from((first + tick).toString(16).padStart(8, '0'))
      const decimal = Buffer.from(String(first + tick))
      for (let feed = 0; feed < ids.length; feed++) {
        const start = (tick * ids.length + feed) * length
        buffer.set(hexadecimal, start + inBlob)
        buffer.set(hexadecimal, start + inBlob + 64)
        for (const at of inEnvelope) buffer.set(decimal, start + at)
      }
    }
  }

  return { buffer, frames: frames.length, frameLength: length, ticks, setTime }
}
