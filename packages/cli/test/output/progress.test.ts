import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import type { IO } from '../../io.js'
import { createProgress } from '../../output/progress.js'

let now = 0
beforeEach(() => {
  now = 0
  jest.spyOn(performance, 'now').mockImplementation(() => now)
})
afterEach(() => {
  jest.restoreAllMocks()
})

function screen(terminals: readonly string[]): { io: IO; shown: () => string } {
  let text = ''
  const output = (name: string): object =>
    Object.assign(new PassThrough(), {
      isTTY: terminals.includes(name),
      columns: 70,
      write(chunk: string) {
        text += chunk
        return true
      },
    })
  const io = { stdout: output('stdout'), stderr: output('stderr') } as unknown as IO
  return { io, shown: () => text }
}

test('a bar shows after two seconds, with what is left, and leaves nothing', () => {
  const { io, shown } = screen(['stderr'])
  const progress = createProgress(io)
  now = 1900
  progress.update(0.2, () => 'a')
  expect(shown()).toBe('')
  now = 3000
  progress.update(0.25, () => '25 reports')
  expect(shown()).toBe(`\r\x1b[2K${'█'.repeat(6)}${'░'.repeat(18)}  25 %  25 reports  0:09 left`)
  now = 3050
  progress.update(0.26, () => 'too soon')
  progress.end()
  expect(shown().endsWith('0:09 left\r\x1b[2K')).toBe(true)
})

test('nothing shows in a pipe, nor where results run over the terminal', () => {
  for (const terminals of [[], ['stdout', 'stderr'], ['stdout']]) {
    const { io, shown } = screen(terminals)
    const progress = createProgress(io)
    now += 5000
    progress.update(0.5, () => 'half')
    progress.end()
    expect(shown()).toBe('')
  }
  const { io, shown } = screen(['stdout', 'stderr'])
  const progress = createProgress(io, true)
  now += 5000
  progress.update(2, () => 'into a file')
  expect(shown()).toContain('100 %  into a file')
})
