import { networkReason } from '../../client/request/send.js'
import type { HttpAnswer } from '../../client/transport/http.js'
import { abortable } from '../../core/abortable.js'
import { isStreamsError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import { parseKey } from '../../crypto/hex-key.js'
import { boxKeys } from '../../crypto/sealed-box.js'
import { EnclaveError } from '../../plugins/confidential-http/errors.js'
import { versionRefusal } from './refusal.js'
import { openBootKey, VERSION } from './sealing.js'

/** A moment, by a clock that never goes back and by one that goes on while the machine sleeps. */
export interface Moment {
  readonly steady: number
  readonly wall: number
}

/** The key of one start of the enclave. */
export interface BootKey {
  readonly publicKey: Uint8Array
  /** The milliseconds it had been up when it was asked for its boot key, or later, but before `answeredAt`. */
  readonly upFor: number
  readonly answeredAt: Moment
  /** Before the last exchange that it is known to have answered. */
  aliveAt: Moment
}

/** Keeps the boot key of one enclave. */
export interface BootKeys {
  /** The boot key; asked for where there is none yet, or where it still is `stale`. Rejects with EnclaveError. */
  current(signal: AbortSignal, stale?: BootKey): Promise<BootKey>
}

/** Posts a question for the boot key. */
export type PostAsker = (asker: Uint8Array, signal: AbortSignal) => Promise<HttpAnswer>

/** What is said of an enclave that does not even answer this. */
export const NOT_IN_TIME = 'did not answer in time when asked for its boot key: nothing was sent'
/** How long an answer is waited for, in milliseconds. */
const MAX_WAIT = 10_000

/** Asks for the boot key once for all who wait for it, and no longer than somebody waits. */
export function createBootKeys(enclave: Uint8Array, host: string, post: PostAsker): BootKeys {
  let known: BootKey | undefined
  let asking: Promise<BootKey> | undefined
  let life = createLifetime()
  let waiting = 0

  async function ask(signal: AbortSignal): Promise<BootKey> {
    const asker = boxKeys()
    const askedAt = moment()
    let answer: HttpAnswer
    try {
      answer = await abortable(post(asker.publicKey, signal), signal)
    } catch (thrown) {
      throw failed(`the enclave at ${host} ${reasonOf(thrown, signal)}`)
    }
    const answeredAt = moment()
    if (answer.status === 404)
      throw failed(`the enclave at ${host} answered 404: it is none, or one of an older version`)
    const why = versionRefusal(answer)
    if (why !== undefined) throw failed(`the enclave at ${host} ${why}`)
    if (answer.status !== 200)
      throw failed(`the enclave at ${host} answered ${answer.status} when asked for its boot key`)
    const json = openBootKey(answer.body, enclave, asker)
    asker.secretKey.fill(0)
    if (json === undefined)
      throw failed(`the answer from ${host} is not of the enclave with the pinned key`)
    return { ...readBootKey(json, host), answeredAt, aliveAt: askedAt }
  }

  function start(): Promise<BootKey> {
    life = createLifetime()
    const { signal, end } = life
    const timer = setTimeout(end, MAX_WAIT)
    const started = ask(signal).finally(() => {
      clearTimeout(timer)
      if (asking === started) asking = undefined
    })
    return started
  }

  return {
    async current(signal, stale) {
      if (known !== undefined && known !== stale) return known
      asking ??= start()
      waiting++
      try {
        known = await abortable(asking, signal)
        return known
      } finally {
        if (--waiting === 0) {
          life.end()
          asking = undefined
        }
      }
    },
  }
}

function failed(message: string): EnclaveError {
  return new EnclaveError(message, { mayHaveBeenSent: false })
}

function reasonOf(thrown: unknown, signal: AbortSignal): string {
  if (signal.aborted) return NOT_IN_TIME
  if (isStreamsError(thrown)) return `gave an answer that can't be taken: ${thrown.message}`
  return `could not be reached: ${networkReason(thrown)}`
}

/** Reads what an enclave has sealed as its boot key. */
export function readBootKey(json: string, host: string): Pick<BootKey, 'publicKey' | 'upFor'> {
  let answer: Readonly<Record<string, unknown>>
  try {
    answer = JSON.parse(json) ?? {}
  } catch {
    throw failed(`the answer from ${host} is not JSON`)
  }
  const { version, bootKey, upFor } = answer
  if (version !== VERSION)
    throw failed(`the enclave at ${host} speaks version ${String(version)}, not ${VERSION}`)
  if (typeof upFor !== 'number' || !(upFor >= 0))
    throw failed(`the enclave at ${host} does not say how long it has been up`)
  if (typeof bootKey !== 'string' || !/^[0-9a-f]{64}$/.test(bootKey))
    throw failed(`the boot key of the enclave at ${host} is not a key`)
  return { publicKey: parseKey('bootKey', bootKey), upFor }
}

/** How far two clocks may drift apart, as a share of the time they measure. */
const MAX_DRIFT = 0.001

/**
 * Why a request that was sealed to `before`, and first sent at `sentAt`, may have been carried out although the enclave now
 * has the boot key `next`; undefined where it can't have been, so that it may be sent to `next`. That the enclave said it
 * does not know `before` counts for nothing, because that is said in the open. What counts is when `next` began:
 *
 *     before answers · · before ends · next starts · · request is sent · · next answers
 *
 * An enclave key is that of one enclave at a time. So where `next` was up when the request was sent, `before` was not, and
 * nobody else can open the request. Where `next` was up when `before` answered, two enclaves have the key at once, and
 * nothing follows.
 */
export function whyCarriedOut(before: BootKey, next: BootKey, sentAt: Moment): string | undefined {
  const wasUpAt = (time: Moment): boolean =>
    next.upFor * (1 - MAX_DRIFT) > elapsed(time, next.answeredAt)
  if (next.publicKey.every((byte, index) => byte === before.publicKey[index]))
    return 'refused the request as sealed to another boot key, which is not so'
  if (wasUpAt(before.aliveAt))
    return 'is one of several with the same key, and another was asked first: each needs a key of its own'
  return wasUpAt(sentAt) ? undefined : 'was started anew while it was asked'
}

export function moment(): Moment {
  return { steady: performance.now(), wall: Date.now() }
}

/** The milliseconds between two moments; where the clocks differ, because the machine slept or was set, the greater number. */
function elapsed(earlier: Moment, later: Moment): number {
  return Math.max(later.steady - earlier.steady, later.wall - earlier.wall)
}
