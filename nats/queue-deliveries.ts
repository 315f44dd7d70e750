import type { JsMsg } from '@nats-io/jetstream'
import type { Plugin } from '../client/plugin.js'
import type { Report } from '../report/report.js'

/** The header by which the wire knows that the plugin is there. It goes nowhere. */
export const acknowledgesHeader = 'x-queue-deliveries'

/** The message that is being delivered, until its report has been seen. */
let current: JsMsg | undefined

/** Delivers a message. Where no report came of it, another worker would do no better: it is not given out again. */
export function deliverOfQueue(message: JsMsg, deliver: () => void): void {
  current = message
  deliver()
  if (current === message) message.term('no report')
  current = undefined
}

/**
 * Acknowledges the reports of a queue: each once it has been taken, so that the log gives it to another worker where this one
 * dies before. It stands below all other plugins.
 */
export function queueDeliveries(): Plugin<never> {
  const messages = new WeakMap<Report, JsMsg>()
  return {
    name: 'queue-deliveries',
    attempt: next => call => {
      if (call.kind === 'stream') call.headers.set(acknowledgesHeader, '1')
      return next(call)
    },
    report: next => report => {
      if (current !== undefined) messages.set(report, current)
      current = undefined
      next(report)
    },
    taken: report => messages.get(report)?.ack(),
  }
}
