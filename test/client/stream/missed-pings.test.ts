import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { Heartbeat, type Watched } from '../../../client/stream/connection/heartbeat.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

/** A connection that is pinged each second, and is dead after two pings without an answer. */
function open() {
  const sent = { pings: 0, pongs: 0 }
  const lost: string[] = []
  const state = { isPaused: false }
  const connection: Watched = {
    facts: { host: 'service' },
    socket: { ping: () => void sent.pings++, pong: () => void sent.pongs++ } as never,
    get isPaused() {
      return state.isPaused
    },
    log: () => undefined,
    answered: () => undefined,
    fail: error => void lost.push(error.message),
  }
  const options = { pingInterval: 1000, missedPings: 2, now: Date.now }
  const heartbeat = new Heartbeat(connection, options)
  return { heartbeat, sent, lost, state }
}

const pass = (seconds: number) => void jest.advanceTimersByTime(1000 * seconds)

test('a connection is lost when pings in a row have no answer', () => {
  const { heartbeat, sent, lost } = open()
  pass(1)
  heartbeat.answer()
  pass(2)
  expect([sent.pings, lost]).toEqual([3, []])
  pass(1)
  expect(lost).toEqual(['connection lost: nothing came from service for 2 pings, 1000 ms apart'])
  heartbeat.stop()
})

test('a message is an answer, too, and pings that were missed apart do not add up', () => {
  const { heartbeat, lost } = open()
  for (let round = 0; round < 20; round++) {
    pass(2)
    heartbeat.signs++
  }
  expect(lost).toEqual([])
  heartbeat.stop()
})

test('a connection that is paused is not lost, and its peer gets pongs', () => {
  const { heartbeat, sent, lost, state } = open()
  pass(1)
  state.isPaused = true
  pass(20)
  expect([sent.pings, sent.pongs, lost]).toEqual([1, 20, []])
  heartbeat.stop()
  pass(20)
  expect(sent.pongs).toBe(20)
})
