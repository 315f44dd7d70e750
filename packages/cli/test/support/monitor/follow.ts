import { get } from 'node:http'
import type { Section } from '../../../monitor/board.js'
import type { Message } from '../../../monitor/messages.js'

/** What a reader of the monitor has got. */
export interface Followed {
  readonly messages: Message[]
  /** The latest row of a section, or the one with this index. */
  latest<Name extends Section>(
    section: Name,
    index?: number,
  ): NonNullable<Message[Name]>[number] | undefined
  stop(): void
}

/** Reads the events of a monitor as its page does. */
export function follow(port: number, headers: Record<string, string> = {}): Followed {
  const messages: Message[] = []
  const asked = get({ port, host: '127.0.0.1', path: '/events', headers, agent: false })
  asked.on('error', () => undefined)
  asked.on('response', response => {
    let text = ''
    response.setEncoding('utf8')
    response.on('error', () => undefined)
    response.on('data', chunk => {
      const events = (text + chunk).split('\n\n')
      text = events.pop() as string
      for (const event of events) messages.push(JSON.parse(event.slice('data: '.length)))
    })
  })
  return {
    messages,
    latest(section, index) {
      const rows = messages.flatMap(message => (message[section] ?? []) as readonly object[])
      const wanted = rows.findLast(
        row => index === undefined || (row as { index?: number }).index === index,
      )
      return wanted as never
    },
    stop: () => asked.destroy(),
  }
}
