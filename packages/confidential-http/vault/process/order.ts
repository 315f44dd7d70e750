import { randomBytes } from 'node:crypto'
import { checkBoolean, number, type Rule } from 'sluice/core'
import { VaultError } from 'sluice/plugins/confidential-http'
import { checkFields, hexText, listOf, parseFields, textLike } from '../files.js'
import { digestOf, MAX_HOLDERS } from '../manifest.js'
import { isSigned, type Writer } from '../identity.js'

/** What a vault's writer wants of its holders: to reshare its key, or to make a new one. */
export interface Order {
  /** 32 hexadecimal digits. */
  readonly id: string
  /** When it was signed, in Unix milliseconds: of many orders, holders keep the latest. */
  readonly signedAt: number
  /** The generation that is reshared. */
  readonly generation: number
  /** How many of the new holders will release a secret. */
  readonly threshold: number
  /** Deals a new key in place of the old one. */
  readonly isFresh: boolean
  /** The public keys of the new holders, by index. */
  readonly receivers: readonly string[]
}

/** An order as it goes over the wire. */
export interface SignedOrder {
  readonly order: string
  readonly signature: string
}

/** What a holder is to do for an order with what other holders have sent. */
export interface Step {
  /** The identifier of the order. */
  readonly id: string
  readonly kind: 'deal' | 'accept'
  /** The public key of the holder that is to do it. */
  readonly holder: string
  /** From 1 on. A holder that has done a step for an order does no earlier one. */
  readonly attempt: number
  /** What it is to be done with. */
  readonly content: readonly (readonly string[])[]
}

/** Keep orders and steps apart from manifests, which the same key signs. */
const PREFIX = 'sluice vault order '
const STEP_PREFIX = 'sluice vault step '

/** Makes and signs an order. */
export function signOrder(
  order: Omit<Order, 'id' | 'signedAt'>,
  writer: Writer,
): SignedOrder & { id: string } {
  const id = randomBytes(16).toString('hex')
  const text = PREFIX + JSON.stringify({ id, signedAt: Date.now(), ...order })
  return { id, order: text, signature: writer.sign(text) }
}

/**
 * Signs a step. A holder gets an order before other holders have dealt, and could have another
 * holder deal or accept again: so each step is signed too, with a digest of all that it is done
 * with.
 */
export function signStep(step: Step, writer: Writer): string {
  return writer.sign(textOfStep(step))
}

/** Throws VaultError unless the vault's writer has signed the step. */
export function checkStep(step: Step, signature: string, writer: string): void {
  if (!isSigned(textOfStep(step), signature, writer))
    throw new VaultError(`the ${step.kind} step is not signed by the vault's writer`)
}

function textOfStep({ content, ...step }: Step): string {
  const { id, kind, holder, attempt } = step
  return (
    STEP_PREFIX +
    JSON.stringify({ id, kind, holder, attempt, digest: digestOf(JSON.stringify(content)) })
  )
}

/** Reads an order that the vault's writer has signed. */
export function readOrder(text: string, signature: string, writer: string): Order {
  if (!text.startsWith(PREFIX) || !isSigned(text, signature, writer))
    throw new VaultError("the order is not signed by the vault's writer")
  const order = parseFields(text.slice(PREFIX.length), 'the order') as unknown as Order
  checkFields('the order', order, rules)
  const { id, signedAt, generation, threshold, isFresh, receivers } = order
  // A holder that is named twice would get two shares.
  const isRight = new Set(receivers).size === receivers.length && threshold <= receivers.length
  if (!isRight) throw new VaultError('the order is malformed')
  return { id, signedAt, generation, threshold, isFresh, receivers }
}

const rules: Readonly<Record<keyof Order, Rule<unknown>>> = {
  id: textLike(/^[0-9a-f]{32}$/, '32 hexadecimal digits'),
  signedAt: number({ min: 0, whole: true }),
  generation: number({ min: 1, whole: true }),
  threshold: number({ min: 1, max: MAX_HOLDERS, whole: true }),
  isFresh: checkBoolean,
  receivers: listOf(hexText, MAX_HOLDERS),
}
