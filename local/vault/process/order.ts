import { randomBytes } from 'node:crypto'
import { parseObject } from '../../sealed-message.js'
import { VaultError } from '../errors.js'
import { MAX_NODES } from '../manifest.js'
import { isSigned, type Writer } from '../writer.js'

/** What a vault's writer wants of its nodes: to reshare its key, or to make a new one. */
export interface Order {
  /** 32 hexadecimal digits. */
  readonly id: string
  /** The generation that is reshared. */
  readonly generation: number
  /** How many of the new nodes will release a secret. */
  readonly threshold: number
  /** Deals a new key in place of the old one. */
  readonly isFresh: boolean
  /** The public keys of the new nodes, by index. */
  readonly receivers: readonly string[]
}

/** An order as it goes over the wire. */
export interface SignedOrder {
  readonly order: string
  readonly signature: string
}

/** Keeps orders apart from manifests, which the same key signs. */
const PREFIX = 'sluice vault order '

/** Makes and signs an order. */
export function signOrder(order: Omit<Order, 'id'>, writer: Writer): SignedOrder & { id: string } {
  const id = randomBytes(16).toString('hex')
  const text = PREFIX + JSON.stringify({ id, ...order })
  return { id, order: text, signature: writer.sign(text) }
}

/** Reads an order that the vault's writer has signed. */
export function readOrder(text: string, signature: string, writer: string): Order {
  if (!text.startsWith(PREFIX) || !isSigned(text, signature, writer))
    throw new VaultError("the order is not signed by the vault's writer")
  const { id, generation, threshold, isFresh, receivers } = (parseObject(
    text.slice(PREFIX.length),
  ) ?? {}) as Partial<Order>
  const isRight =
    /^[0-9a-f]{32}$/.test(String(id)) &&
    Number.isInteger(generation) &&
    typeof isFresh === 'boolean' &&
    Array.isArray(receivers) &&
    receivers.length <= MAX_NODES &&
    receivers.every(key => /^[0-9a-f]{64}$/.test(String(key))) &&
    // A node that is named twice would get two shares.
    new Set(receivers).size === receivers.length &&
    Number.isInteger(threshold) &&
    Number(threshold) >= 1 &&
    Number(threshold) <= receivers.length
  if (!isRight) throw new VaultError('the order is malformed')
  return { id, generation, threshold, isFresh, receivers } as Order
}
