import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import fc from 'fast-check'
import * as bytesOfNode from '../../platform/bytes.js'
import * as bytesOfWeb from '../../platform/bytes.web.js'
import type * as globalsOfNode from '../../platform/globals.js'
import * as globalsOfWeb from '../../platform/globals.web.js'
import type * as netOfNode from '../../platform/net.js'
import * as netOfWeb from '../../platform/net.web.js'
import type * as p256OfNode from '../../platform/p256.js'
import * as p256OfWeb from '../../platform/p256.web.js'
import type * as nativeOfNode from '../../platform/secp256k1.js'
import * as nativeOfWeb from '../../platform/secp256k1.web.js'
import * as hashOfNode from '../../platform/sha256.js'
import * as hashOfWeb from '../../platform/sha256.web.js'
import type * as socketOfNode from '../../platform/socket.js'
import * as socketOfWeb from '../../platform/socket.web.js'
import type * as threadsOfNode from '../../platform/threads.js'
import * as threadsOfWeb from '../../platform/threads.web.js'
import type * as cryptoOfNode from '../../platform/webcrypto.js'
import * as cryptoOfWeb from '../../platform/webcrypto.web.js'
import type * as x25519OfNode from '../../platform/x25519.js'
import * as x25519OfWeb from '../../platform/x25519.web.js'
import { anyCharacter } from '../support/characters.js'

// The compiler holds each form for the web to the types of the one for Node.
const web: readonly [
  typeof bytesOfNode,
  typeof globalsOfNode,
  typeof cryptoOfNode,
  typeof netOfNode,
  typeof nativeOfNode,
  typeof hashOfNode,
  Pick<typeof socketOfNode, 'openWebSocket'>,
  typeof threadsOfNode,
  typeof p256OfNode,
  typeof x25519OfNode,
] = [
  bytesOfWeb,
  globalsOfWeb,
  cryptoOfWeb,
  netOfWeb,
  nativeOfWeb,
  hashOfWeb,
  socketOfWeb,
  threadsOfWeb,
  p256OfWeb,
  x25519OfWeb,
]

test('there are as many forms as the folder has', () => {
  expect(web).toHaveLength(10)
})

/** Does work with other globals. */
function withGlobals<Value>(globals: object, work: () => Value): Value {
  const own = Object.keys(globals).map(
    name => [name, Object.getOwnPropertyDescriptor(globalThis, name) ?? {}] as const,
  )
  try {
    Object.assign(globalThis, globals)
    return work()
  } finally {
    for (const [name, property] of own) Object.defineProperty(globalThis, name, property)
  }
}

describe.each([
  ['no encoder and no decoder', { TextEncoder: undefined, TextDecoder: undefined }],
  ['an encoder that cannot write into bytes', { TextEncoder: class {}, TextDecoder: undefined }],
])('the form of bytes for the web, with %s', (_what, globals) => {
  /** A copy of its own: it makes its encoder once. */
  let form = bytesOfWeb
  beforeAll(async () => {
    await jest.isolateModulesAsync(async () => {
      form = await import('../../platform/bytes.web.js')
    })
  })

  test('writes the text of the one for Node up to a character that is not ASCII', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter, maxLength: 100 }), fc.nat(120), (text, size) => {
        const [bytes, other] = [new Uint8Array(size), Buffer.alloc(size)]
        withGlobals(globals, () => form.writeText(bytes, text))
        bytesOfNode.writeText(other, text)
        const ascii = [...text].findIndex(each => each > '\x7f')
        const same = ascii < 0 ? size : ascii
        expect(bytes.subarray(0, same)).toEqual(Uint8Array.from(other.subarray(0, same)))
        if (same < size) expect(bytes[same]).toBeGreaterThan(0x7f)
      }),
    )
  })

  test('reads the text of the one for Node, or none', () => {
    const read = (bytes: Uint8Array, one: Pick<typeof bytesOfWeb, 'readUTF8'>): unknown => {
      try {
        return one.readUTF8(bytes)
      } catch {
        return undefined
      }
    }
    const texts = fc.string({ unit: anyCharacter }).map(text => new TextEncoder().encode(text))
    const unlikely = fc.constantFrom(
      0xc0,
      0xc1,
      0xe0,
      0xed,
      0xf0,
      0xf4,
      0x80,
      0x8f,
      0x9f,
      0xa0,
      0xbf,
    )
    const bytes = fc.oneof(
      texts,
      fc.array(unlikely).map(list => Uint8Array.from(list)),
    )
    fc.assert(
      fc.property(bytes, given => {
        const own = withGlobals(globals, () => read(given, form))
        expect(own).toBe(read(given, bytesOfNode))
      }),
    )
  })
})

describe('both forms of bytes', () => {
  const text = fc.string({ unit: anyCharacter, maxLength: 100 })
  const both = [bytesOfNode, bytesOfWeb] as const

  test('write the same text, as much of it as fits', () => {
    fc.assert(
      fc.property(text, fc.nat(120), (written, size) => {
        const [node, other] = both.map(form => {
          const bytes = form.viewBytes(new ArrayBuffer(size + 8), size)
          form.writeText(bytes, written)
          return Uint8Array.from(bytes)
        })
        expect(other).toEqual(node)
      }),
    )
  })

  test('read the same characters', () => {
    for (const form of both) {
      const bytes = form.viewBytes(new ArrayBuffer(64), 64)
      form.writeText(bytes, 'x0123456789abcdefABCDEFx')
      expect(form.readText(bytes, 1, 23)).toBe('0123456789abcdefABCDEF')
    }
  })

  test('agree on digits, and on what is the same', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.uint8Array(), (one, other) => {
        const digits = bytesOfNode.toHex(one)
        expect(digits).toBe(Buffer.from(one).toString('hex'))
        expect(bytesOfWeb.toHex(one)).toBe(digits)
        for (const form of both) {
          expect(Uint8Array.from(form.fromHex(digits))).toEqual(one)
          const copy = form.copyBytes(one)
          expect(form.isSame(copy, one)).toBe(true)
          expect(form.isSame(copy, other)).toBe(Buffer.compare(one, other) === 0)
          copy.fill(1)
          expect(bytesOfNode.toHex(one)).toBe(digits)
        }
      }),
    )
  })
})

describe('setImmediate of the web', () => {
  test('runs tasks in their order, later, and before timers that are due after it', async () => {
    const order: number[] = []
    await new Promise<void>(resolve => {
      globalsOfWeb.setImmediate(() => order.push(2))
      globalsOfWeb.setImmediate(() => {
        order.push(3)
        resolve()
      })
      order.push(1)
    })
    expect(order).toEqual([1, 2, 3])
  })

  test('waits for a timer where there are no channels', async () => {
    const { MessageChannel } = globalThis
    try {
      Object.assign(globalThis, { MessageChannel: undefined })
      await new Promise<void>(resolve => globalsOfWeb.setImmediate(resolve))
    } finally {
      Object.assign(globalThis, { MessageChannel })
    }
  })
})

test('setImmediate of the web runs tasks later where there are neither channels nor timers', async () => {
  const order: number[] = []
  await jest.isolateModulesAsync(async () => {
    const { setImmediate } = await import('../../platform/globals.web.js')
    withGlobals({ MessageChannel: undefined, setTimeout: undefined }, () => {
      setImmediate(() => order.push(2))
      setImmediate(() => order.push(3))
      order.push(1)
    })
  })
  await null
  expect(order).toEqual([1, 2, 3])
})

describe('WebCrypto of the web', () => {
  test('is the platform’s, or none where that is not secure', async () => {
    expect(await cryptoOfWeb.loadWebCrypto()).toBe(globalThis.crypto)
    const own = Object.getOwnPropertyDescriptor(globalThis, 'crypto') as PropertyDescriptor
    try {
      Object.defineProperty(globalThis, 'crypto', { value: {}, configurable: true })
      expect(await cryptoOfWeb.loadWebCrypto()).toBeUndefined()
    } finally {
      Object.defineProperty(globalThis, 'crypto', own)
    }
  })
})

describe('SHA-256', () => {
  test('is computed at once by Node alone', () => {
    expect(hashOfNode.sha256).toBeDefined()
    expect(hashOfWeb.sha256).toBeUndefined()
  })
})
