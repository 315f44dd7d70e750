// Makes a picture small: with a palette of its 256 most frequent colours, as suits text on plain grounds.
import { crc32, deflateSync, inflateSync } from 'node:zlib'

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

function* chunksOf(png) {
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at)
    yield {
      type: png.toString('latin1', at + 4, at + 8),
      data: png.subarray(at + 8, at + 8 + length),
    }
    at += length + 12
  }
}

function makeChunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  sum.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, sum])
}

/** What a byte is predicted from, by the filter of its line: the byte to the left, above, and between them. */
function predict(filter, left, up, corner) {
  if (filter === 1) return left
  if (filter === 2) return up
  if (filter === 3) return (left + up) >> 1
  if (filter !== 4) return 0
  const [a, b, c] = [up - corner, left - corner, left + up - 2 * corner].map(Math.abs)
  if (a <= b && a <= c) return left
  return b <= c ? up : corner
}

/** The pixels of a picture of eight bits a channel, as bytes. */
function readPixels(png) {
  const chunks = [...chunksOf(png)]
  const header = chunks[0].data
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)]
  const size = header[9] === 6 ? 4 : 3
  const packed = inflateSync(
    Buffer.concat(chunks.filter(({ type }) => type === 'IDAT').map(({ data }) => data)),
  )
  const line = width * size
  const pixels = Buffer.alloc(line * height)
  for (let y = 0; y < height; y++) {
    const from = y * (line + 1)
    const to = y * line
    for (let x = 0; x < line; x++) {
      const left = x < size ? 0 : pixels[to + x - size]
      const up = y === 0 ? 0 : pixels[to + x - line]
      const corner = y === 0 || x < size ? 0 : pixels[to + x - line - size]
      pixels[to + x] = packed[from + 1 + x] + predict(packed[from], left, up, corner)
    }
  }
  return { width, height, size, pixels }
}

/** The picture with 256 colours. */
export function shrinkPNG(png) {
  const { width, height, size, pixels } = readPixels(png)
  const counts = new Map()
  for (let at = 0; at < pixels.length; at += size) {
    const colour = pixels.readUIntBE(at, 3)
    counts.set(colour, (counts.get(colour) ?? 0) + 1)
  }
  const palette = [...counts]
    .sort(([, one], [, other]) => other - one)
    .slice(0, 256)
    .map(([colour]) => colour)
  const places = new Map(palette.map((colour, index) => [colour, index]))
  const distance = (one, other) =>
    [16, 8, 0].reduce(
      (sum, bits) => sum + (((one >> bits) & 255) - ((other >> bits) & 255)) ** 2,
      0,
    )
  function placeOf(colour) {
    let place = places.get(colour)
    if (place === undefined) {
      place = palette.reduce(
        (best, each, index) =>
          distance(each, colour) < distance(palette[best], colour) ? index : best,
        0,
      )
      places.set(colour, place)
    }
    return place
  }
  const lines = Buffer.alloc((width + 1) * height)
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      lines[y * (width + 1) + 1 + x] = placeOf(pixels.readUIntBE((y * width + x) * size, 3))
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 3, 0, 0, 0], 8)
  const colours = Buffer.alloc(palette.length * 3)
  for (const [index, colour] of palette.entries()) colours.writeUIntBE(colour, index * 3, 3)
  return Buffer.concat([
    SIGNATURE,
    makeChunk('IHDR', header),
    makeChunk('PLTE', colours),
    makeChunk('IDAT', deflateSync(lines, { level: 9 })),
    makeChunk('IEND', Buffer.alloc(0)),
  ])
}
