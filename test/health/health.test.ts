import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { Health, type Severity } from '../../health/index.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

type Cause = 'slow' | 'away' | 'broken'
const causes: Readonly<Record<Cause, Severity>> = {
  slow: 'warning',
  away: 'unready',
  broken: 'dead',
}

function create() {
  const lines: string[] = []
  const log = {
    info: (line: string) => void lines.push(`info ${line}`),
    warn: (line: string) => void lines.push(`warn ${line}`),
    error: (line: string) => void lines.push(`error ${line}`),
  }
  return { health: new Health<Cause>({ service: 'relay', causes, log }), lines }
}

describe('a health', () => {
  test('is ready in spite of warnings, and alive unless only a restart can help', () => {
    const { health } = create()
    const seen = (): readonly boolean[] => [health.isReady, health.isAlive]
    expect(seen()).toEqual([true, true])
    health.set('slow', 'it takes long')
    expect(seen()).toEqual([true, true])
    health.set('away', 'nobody answers')
    expect(seen()).toEqual([false, true])
    health.set('broken', 'it has failed')
    expect(seen()).toEqual([false, false])
    for (const cause of ['slow', 'away', 'broken'] as const) health.set(cause)
    expect(seen()).toEqual([true, true])
  })

  test('logs the beginning and the end of a problem, each once', async () => {
    const { health, lines } = create()
    health.set('slow')
    health.set('away', 'nobody answers')
    const [first] = health.problems
    await jest.advanceTimersByTimeAsync(7000)
    health.set('away', 'nobody answers for 7 s')
    expect(health.problems).toEqual([{ ...first, message: 'nobody answers for 7 s' }])
    health.set('away')
    health.set('slow', 'it takes long')
    expect(lines).toEqual([
      'error relay: away: nobody answers',
      'info relay: away is over, after 7 s',
      'warn relay: slow: it takes long',
    ])
    expect([health.countOf('away'), health.countOf('slow'), health.countOf('broken')]).toEqual([
      1, 1, 0,
    ])
  })

  test('keeps no long message', () => {
    const { health } = create()
    health.set('away', 'x'.repeat(10_000))
    expect(health.problems[0]?.message).toHaveLength(401)
  })

  test('makes its checks at once, every second, when asked, and not after its end', async () => {
    const { health } = create()
    let checks = 0
    health.watch(() => void checks++)
    expect(checks).toBe(1)
    await jest.advanceTimersByTimeAsync(2000)
    expect(checks).toBe(3)
    health.refresh()
    expect(checks).toBe(4)
    health.end()
    await jest.advanceTimersByTimeAsync(5000)
    expect(checks).toBe(4)
    expect(jest.getTimerCount()).toBe(0)
  })
})
