// The log's side is played here: messages come from the test, and their answers go to it.
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import type { JsMsg } from '@nats-io/jetstream'
import type { StreamScope } from 'sluice/client'
import { createLifetime } from 'sluice/core'
import type { ReportLog } from '../log.js'
import { type Held, QueueWorker } from '../queue-worker.js'

const feedID = `0x0003${'5'.repeat(60)}`

/** A worker of a queue, of which messages may be held by three at a time. */
function open() {
  const life = createLifetime()
  lives.push(life)
  const buried: string[] = []
  const counts: string[] = []
  const errors: string[] = []
  const scope = {
    ...{ feedIDs: [feedID], log: {}, signal: life.signal, defer: life.defer },
    events: { emit: (_name: string, error: Error) => errors.push(error.message) },
    count: (name: string) => counts.push(name),
  } as unknown as StreamScope
  const client = { publish: async (subject: string) => void buried.push(subject) }
  const log = {
    ...{ connection: {}, stream: 'SLUICE', prefix: 'sluice' },
    access: async () => ({ client }),
  } as unknown as ReportLog
  const settings = {
    ...{ queue: 'desk', redeliverAfter: 4, handlingTimeout: 10 },
    ...{ maxDeliveries: 3, maxUnacknowledged: 3 },
  }
  const worker = new QueueWorker(log, scope, settings)
  return { worker, life, buried, counts, errors }
}

/** A message of the log, and what it was answered. */
function messageOf(seq: number, deliveryCount = 1, of = feedID) {
  const answers: string[] = []
  const message = {
    ...{ seq, data: new Uint8Array(), subject: `sluice.3.${of}` },
    info: { deliveryCount, streamSequence: seq, timestampNanos: 1e18 + seq },
    ack: () => void answers.push('ack'),
    working: () => void answers.push('working'),
    nak: (ms?: number) => void answers.push(`nak ${ms ?? 'now'}`),
    term: (reason: string) => void answers.push(`term ${reason}`),
  } as unknown as JsMsg
  return { message, answers }
}

const lives: ReturnType<typeof createLifetime>[] = []
beforeEach(() => void jest.useFakeTimers())
afterEach(() => {
  for (const life of lives.splice(0)) life.end()
  jest.useRealTimers()
})
const settled = () => jest.advanceTimersByTimeAsync(0)

test('a worker requests no more messages than it may hold, and more as it acknowledges', async () => {
  const { worker, life } = open()
  const { hand } = worker
  expect(await hand.reserve(2)).toBe(2)
  expect(await hand.reserve(2)).toBe(1)
  let more: number | undefined
  void hand.reserve(2).then(count => {
    more = count
  })
  const held = [1, 2, 3].map(seq => worker.hold(messageOf(seq).message) as Held)
  hand.unreserve(3)
  await settled()
  expect([more, hand.size]).toEqual([undefined, 3])
  worker.acknowledged(held[1] as Held)
  await settled()
  expect([more, hand.size]).toEqual([1, 2])
  const last = hand.reserve(1)
  life.end()
  expect(await last).toBe(0)
})

test('the log is told while a report is worked on, and gets it back when that takes too long', async () => {
  const { worker, errors } = open()
  const { message, answers } = messageOf(1)
  const held = worker.hold(message) as Held
  await jest.advanceTimersByTimeAsync(9000)
  expect(new Set(answers)).toEqual(new Set(['working']))
  await jest.advanceTimersByTimeAsync(2000)
  expect(answers.at(-1)).toBe('nak now')
  expect(errors).toEqual([expect.stringContaining('was worked on for 10 s')])
  // What its handler says later counts for nothing.
  const before = answers.length
  worker.acknowledged(held)
  await jest.advanceTimersByTimeAsync(20_000)
  expect(answers).toHaveLength(before)
})

test('a report that is acknowledged is settled once', () => {
  const { worker } = open()
  const { message, answers } = messageOf(1)
  const held = worker.hold(message) as Held
  // The log delivers it again while it is here.
  expect(worker.hold(message)).toBeUndefined()
  worker.acknowledged(held)
  worker.handBack(held)
  expect(answers).toEqual(['ack'])
})

test('a report that was not handled is given back, the later the more often', () => {
  const { worker, counts } = open()
  const given = [1, 2, 3].map(count => {
    const { message, answers } = messageOf(count, count)
    worker.handBack(worker.hold(message) as Held)
    return answers
  })
  expect(given).toEqual([['nak 1000'], ['nak 2000'], ['nak 4000']])
  expect(counts).toEqual(['redelivered', 'redelivered'])
})

test('a report with wrong signatures is a dead letter, and one whose signers are away is given back', async () => {
  const { worker, buried, errors } = open()
  const [forged, unknown] = [messageOf(1), messageOf(2)]
  const reject = ({ message }: typeof forged, isRetryable: boolean): void =>
    worker.rejected(
      worker.hold(message) as Held,
      Object.assign(new Error('signed by nobody'), { isRetryable }),
    )
  reject(unknown, true)
  expect(unknown.answers).toEqual(['nak 1000'])
  reject(forged, false)
  await settled()
  expect(forged.answers).toEqual(['term signature'])
  expect(buried).toEqual([`sluice-dead.desk.${feedID}`])
  expect(errors).toEqual([expect.stringContaining('is a dead letter, since signed by nobody')])
})

test('a report that was given out too often is a dead letter, and one of another feed is not taken', async () => {
  const { worker, buried } = open()
  const [often, foreign] = [messageOf(1, 4), messageOf(2, 1, `0x0003${'6'.repeat(60)}`)]
  expect(worker.hold(often.message)).toBeUndefined()
  expect(worker.hold(foreign.message)).toBeUndefined()
  await settled()
  expect(often.answers).toEqual(['term deliveries'])
  expect(foreign.answers).toEqual(['nak 1000'])
  expect(buried).toHaveLength(1)
})
