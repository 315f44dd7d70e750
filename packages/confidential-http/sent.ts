import { isStreamsError } from 'sluice/core'

const WORDS = 'the request may have been carried out'

/** Whether the request may have been sent, by errors of others, which are not changed. */
const sentByError = new WeakMap<object, boolean>()

/** Adds to an error, as a field and in words, whether the request may have reached the external server. Returns the error. */
export function withSent(thrown: unknown, mayHaveBeenSent: boolean): unknown {
  if (typeof thrown !== 'object' || thrown === null) return thrown
  if (!isStreamsError(thrown)) {
    sentByError.set(thrown, mayHaveBeenSent)
    return thrown
  }
  const { message, stack = '' } = thrown
  const described = describeSent(message, mayHaveBeenSent)
  // Node prints the stack of an error, which repeats the message.
  if (described !== message)
    Object.assign(thrown, { message: described, stack: stack.replace(message, () => described) })
  return Object.assign(thrown, { mayHaveBeenSent })
}

/** Whether the request may have been sent, according to `withSent` or the error, and true by default. */
export function sentOf(thrown: unknown): boolean {
  if (isStreamsError(thrown)) return thrown.mayHaveBeenSent ?? true
  return typeof thrown === 'object' && thrown !== null ? (sentByError.get(thrown) ?? true) : true
}

/** Appends the words for a request that may have been sent, unless the message has them. */
export function describeSent(message: string, mayHaveBeenSent: boolean): string {
  return mayHaveBeenSent && !message.includes(WORDS) ? `${message}; ${WORDS}` : message
}
