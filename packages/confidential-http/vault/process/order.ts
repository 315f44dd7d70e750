import { randomBytes } from 'node:crypto'
import { checkBoolean, number, type Rule } from 'sluice/core'
import { VaultError } from 'sluice/plugins/confidential-http'
import { checkFields, hexText, listOf, parseFields, textLike } from '../files.js'
import { isSigned, type Writer } from '../identity.js'
import { digestOf, MAX_HOLDERS, type SignedManifest, type SignedNotice } from '../manifest.js'

/**
 * An instruction of a vault's writer to the holders: reshare the vault's key, or make a new key.
 */
export interface Order {
  /** 32 hexadecimal digits. */
  readonly id: string
  /**
   * When the order was signed, in Unix milliseconds. A holder with too many orders under way drops
   * the earliest.
   */
  readonly signedAt: number
  /** The generation of the shares that are reshared. */
  readonly generation: number
  /** How many of the new holders it takes to release a secret. */
  readonly threshold: number
  /** True if the holders deal a new key in place of the old one. */
  readonly isFresh: boolean
  /** The public keys of the new holders, by index. */
  readonly receivers: readonly string[]
}

/** An order as it is sent to holders: its text and the writer's signature. */
export interface SignedOrder {
  readonly order: string
  readonly signature: string
}

/**
 * One step of an order for one holder: it deals or accepts, with the messages that other holders
 * have sent.
 */
export interface Step {
  /** The identifier of the order. */
  readonly id: string
  readonly kind: 'deal' | 'accept'
  /** The public key of the holder that does the step. */
  readonly holder: string
  /**
   * From 1 on. After an attempt, a holder refuses the same or an earlier attempt with other
   * content.
   */
  readonly attempt: number
  /**
   * The messages that the step uses: invitations to deal, or dealings and sealed shares to accept.
   */
  readonly content: readonly (readonly string[])[]
}

/**
 * Tells a holder that the vault has dropped it, and nothing else: the manifest would show a former
 * holder the names and hosts of later secrets. The writer's key identifies the vault.
 */
export interface Notice {
  /** The public key of the dropped holder. */
  readonly holder: string
  /** The generation of the shares that replace those of the holder. */
  readonly generation: number
  /** The number and the digest of a manifest without the holder. */
  readonly sequence: number
  readonly digest: string
}

/**
 * These prefixes distinguish orders, steps and notices from manifests, which are signed with the
 * same key.
 */
const PREFIX = 'sluice vault order '
const STEP_PREFIX = 'sluice vault step '
const NOTICE_PREFIX = 'sluice vault notice '

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
 * Signs a step. A holder gets the order before other holders have dealt, and could send it to
 * another holder to make that one deal or accept again. So the writer also signs each step, with a
 * digest of the step's content.
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
  // A holder that is listed twice would get two shares.
  const isRight = new Set(receivers).size === receivers.length && threshold <= receivers.length
  if (!isRight) throw new VaultError('the order is malformed')
  return { id, signedAt, generation, threshold, isFresh, receivers }
}

/** Signs the notice for a holder that is in this manifest no more. */
export function signNotice(
  holder: string,
  { generation, sequence, digest }: SignedManifest,
  writer: Writer,
): SignedNotice {
  const made: Notice = { holder, generation, sequence, digest }
  const notice = NOTICE_PREFIX + JSON.stringify(made)
  return { notice, signature: writer.sign(notice) }
}

/** Reads a notice that the vault's writer has signed. */
export function readNotice({ notice, signature }: SignedNotice, writer: string): Notice {
  if (!notice.startsWith(NOTICE_PREFIX) || !isSigned(notice, signature, writer))
    throw new VaultError("the notice is not signed by the vault's writer")
  const fields = parseFields(notice.slice(NOTICE_PREFIX.length), 'the notice') as unknown as Notice
  checkFields('the notice', fields, noticeRules)
  const { holder, generation, sequence, digest } = fields
  return { holder, generation, sequence, digest }
}

const noticeRules: Readonly<Record<keyof Notice, Rule<unknown>>> = {
  holder: hexText,
  generation: number({ min: 1, whole: true }),
  sequence: number({ min: 1, whole: true }),
  digest: hexText,
}

const rules: Readonly<Record<keyof Order, Rule<unknown>>> = {
  id: textLike(/^[0-9a-f]{32}$/, '32 hexadecimal digits'),
  signedAt: number({ min: 0, whole: true }),
  generation: number({ min: 1, whole: true }),
  threshold: number({ min: 1, max: MAX_HOLDERS, whole: true }),
  isFresh: checkBoolean,
  receivers: listOf(hexText, MAX_HOLDERS),
}
