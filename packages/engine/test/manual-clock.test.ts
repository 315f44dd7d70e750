import { expect, test } from '@jest/globals'
import { EngineClock } from '../clock.js'

test('the timers of a manual clock run by their time, each at its own', async () => {
  const clock = new EngineClock({ clock: 'manual', now: () => 1000, keepAlive: true })
  const ran: [string, number][] = []
  const after = (ms: number, name: string, then?: () => void) =>
    clock.after(ms, () => {
      ran.push([name, clock.now()])
      then?.()
    })
  after(30, 'last')
  after(10, 'first', () => void after(5, 'set meanwhile'))
  after(10, 'with the first')
  const cancel = after(20, 'cancelled')
  after(60, 'later')
  cancel()
  await clock.advance(50, () => Promise.resolve())
  expect(ran).toEqual([
    ['first', 1010],
    ['with the first', 1010],
    ['set meanwhile', 1015],
    ['last', 1030],
  ])
  expect(clock.now()).toBe(1050)
})
