import { abortable } from '../../core/async.js'
import { createLifetime, type Lifetime } from '../../core/lifetime.js'

/**
 * Lets equal requests that are under way at the same time share one reply, so that thirty parts of
 * a program that ask for the same price take one place of the service's limit.
 */
export class SharedReplies<Reply> {
  /** By what is requested. Resolves with undefined if the maker of the request has given up. */
  readonly #underWay = new Map<string, Promise<Reply | undefined>>()

  /**
   * Resolves with the reply to an equal request that is under way, or else with that of `send`. A
   * request whose maker gives up is made again for the others. After `patience` milliseconds it is
   * made again, too: on edge platforms a request that ends with its maker never settles.
   */
  async take(
    what: string,
    life: Lifetime,
    patience: number,
    send: () => Promise<Reply>,
  ): Promise<Reply> {
    for (;;) {
      const other = this.#underWay.get(what)
      if (other === undefined) break
      const reply = await within(other, life, patience)
      if (reply !== undefined) return reply
      this.#forget(what, other)
    }
    const reply = send()
    const shared = reply.catch(thrown => {
      if (life.isOver) return undefined
      throw thrown
    })
    shared.catch(() => undefined)
    this.#underWay.set(what, shared)
    try {
      return await reply
    } finally {
      this.#forget(what, shared)
    }
  }

  #forget(what: string, reply: Promise<Reply | undefined>): void {
    if (this.#underWay.get(what) === reply) this.#underWay.delete(what)
  }
}

/** Settles like `work`, but resolves with undefined after so many milliseconds. */
async function within<Value>(
  work: Promise<Value>,
  life: Lifetime,
  ms: number,
): Promise<Value | undefined> {
  const limit = createLifetime(life)
  const timer = setTimeout(() => limit.end(), ms)
  try {
    return await abortable(work, limit.signal)
  } catch (thrown) {
    if (limit.isOver && !life.isOver) return undefined
    throw thrown
  } finally {
    clearTimeout(timer)
    limit.end()
  }
}
