// The log's side is played here: it answers when the test says so.
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { Health } from 'sluice/internal'
import type { ReportLog } from '../log.js'
import { Publisher, type PublisherCause, publisherCauses } from '../publisher.js'

interface Sent {
  readonly subject: string
  readonly id: string
  readonly reply: string
}

interface Status {
  readonly type: string
  readonly error?: Error
}

/** A log that takes messages, and a publisher of it. */
async function open() {
  const sent: Sent[] = []
  let receive: (error: null, message: object) => void = () => undefined
  let tell: (status: Status) => void = () => undefined
  async function* statuses(): AsyncGenerator<Status> {
    for (;;) yield await new Promise<Status>(resolve => (tell = resolve))
  }
  const connection = {
    publish(
      subject: string,
      _data: Uint8Array,
      { reply, headers }: { reply: string; headers: { get(name: string): string } },
    ) {
      sent.push({ subject, id: headers.get('Nats-Msg-Id'), reply })
    },
    subscribe(_subject: string, { callback }: { callback: typeof receive }) {
      receive = callback
      return { unsubscribe: () => undefined }
    },
    status: statuses,
    isClosed: () => false,
  }
  const errors: string[] = []
  const health = new Health<PublisherCause>({ service: 'relay', causes: publisherCauses })
  const log = { connection, stream: 'SLUICE' } as unknown as ReportLog
  const publisher = await Publisher.open(log, health, error => errors.push(error.message))
  publishers.push(publisher)
  const stored: string[] = []
  return {
    publisher,
    health,
    sent,
    errors,
    stored,
    publish: (id: string) =>
      publisher.publish('sluice.3.feed', new Uint8Array(), id, isDuplicate =>
        stored.push(isDuplicate ? `${id} again` : id),
      ),
    answer({ reply }: Sent, answer: object) {
      receive(null, { subject: reply, data: new TextEncoder().encode(JSON.stringify(answer)) })
    },
    async tell(type: string) {
      tell({ type })
      await jest.advanceTimersByTimeAsync(0)
    },
  }
}

const publishers: Publisher[] = []
beforeEach(() => void jest.useFakeTimers())
afterEach(() => {
  for (const publisher of publishers.splice(0)) publisher.close()
  jest.useRealTimers()
})

test('a report is stored once the log says so, and not when it was sent', async () => {
  const { publisher, publish, sent, stored, answer } = await open()
  publish('one')
  publish('two')
  expect(sent.map(({ id }) => id)).toEqual(['one', 'two'])
  expect(publisher.pending).toBe(2)
  expect(stored).toEqual([])
  answer(sent[1] as Sent, { stream: 'SLUICE', seq: 8 })
  answer(sent[0] as Sent, { stream: 'SLUICE', seq: 7, duplicate: true })
  expect(stored).toEqual(['two', 'one again'])
  expect(publisher.pending).toBe(0)
  // A second answer to a message counts for nothing.
  answer(sent[1] as Sent, { stream: 'SLUICE', seq: 9 })
  expect(stored).toHaveLength(2)
})

test('a report without an answer is sent again, with its id, until the log has it', async () => {
  const { publish, sent, stored, errors, health, answer } = await open()
  publish('one')
  await jest.advanceTimersByTimeAsync(4900)
  expect(sent).toHaveLength(1)
  await jest.advanceTimersByTimeAsync(600)
  expect(sent.map(({ id }) => id)).toEqual(['one', 'one'])
  expect(errors).toEqual([expect.stringContaining('has acknowledged nothing of 1 messages')])
  expect(health.problems.map(({ cause }) => cause)).toEqual(['publish-unanswered'])
  answer(sent[0] as Sent, { stream: 'SLUICE', seq: 7 })
  expect(stored).toEqual(['one'])
  expect(health.problems).toEqual([])
  await jest.advanceTimersByTimeAsync(20_000)
  expect(sent).toHaveLength(2)
})

test('a report that the log refuses is sent again soon', async () => {
  const { publisher, publish, sent, stored, health, answer } = await open()
  publish('one')
  answer(sent[0] as Sent, { error: { description: 'maximum bytes exceeded' } })
  expect(health.problems.map(({ cause }) => cause)).toEqual(['log-full'])
  await jest.advanceTimersByTimeAsync(1000)
  expect(sent).toHaveLength(2)
  expect([publisher.pending, publisher.rejected]).toEqual([1, 1])
  answer(sent[1] as Sent, { stream: 'SLUICE', seq: 7 })
  expect(stored).toEqual(['one'])
  expect(health.problems).toEqual([])
})

test('what is published while the connection is away is sent at once when it is back', async () => {
  const { publisher, publish, sent, tell } = await open()
  await tell('disconnect')
  publish('one')
  publish('two')
  expect(sent).toEqual([])
  expect(publisher.pending).toBe(2)
  await tell('reconnect')
  expect(sent.map(({ id }) => id)).toEqual(['one', 'two'])
})
