import { isStreamsError } from '../core/errors.js'

const WORDS = 'the request may have been carried out'

/** What is known of errors that are not the library's own, which are left as they are. */
const known = new WeakMap<object, boolean>()

/**
 * Says on an error, as a field and in words, whether the external server may have been sent the request. Returns what was
 * thrown.
 */
export function withSent(thrown: unknown, mayHaveBeenSent: boolean): unknown {
  if (typeof thrown !== 'object' || thrown === null) return thrown
  if (!isStreamsError(thrown)) {
    known.set(thrown, mayHaveBeenSent)
    return thrown
  }
  const { message, stack = '' } = thrown
  const described = describeSent(message, mayHaveBeenSent)
  // What is printed of an error is its stack, which repeats the message.
  if (described !== message)
    Object.assign(thrown, { message: described, stack: stack.replace(message, () => described) })
  return Object.assign(thrown, { mayHaveBeenSent })
}

/** Whether the request may have been sent, as far as `withSent` or the error says; true where neither does. */
export function sentOf(thrown: unknown): boolean {
  if (isStreamsError(thrown)) return thrown.mayHaveBeenSent ?? true
  return typeof thrown === 'object' && thrown !== null ? (known.get(thrown) ?? true) : true
}

/** A message with the words for what may have been sent, once. */
export function describeSent(message: string, mayHaveBeenSent: boolean): string {
  return mayHaveBeenSent && !message.includes(WORDS) ? `${message}; ${WORDS}` : message
}
