import type { ReportLog } from './log.js'
import { isDenied } from './refusals.js'

/**
 * Calls back when NATS does not let a connection ask a consumer of the log for messages. Such a
 * request gets no answer: NATS tells the connection, and not the one who asked. Without a name, it
 * is any consumer. Returns a function that ends this.
 */
export function watchDenials(
  { connection, stream }: ReportLog,
  consumer: string | undefined,
  denied: (error: Error) => void,
): () => void {
  const subject = `"$JS.API.CONSUMER.MSG.NEXT.${stream}.`
  const wanted = consumer === undefined ? subject : `${subject}${consumer}"`
  const statuses = connection.status()[Symbol.asyncIterator]()

  async function follow(): Promise<void> {
    for (;;) {
      const { value, done } = await statuses.next()
      if (done === true) return
      if (value.type !== 'error') continue
      const { error } = value
      if (isDenied(error.message) && error.message.includes(wanted)) denied(error)
    }
  }

  follow().catch(() => undefined)
  return () => void statuses.return?.()
}
