import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { type CursorStore, fileCursors } from '../../client/stores/index.js'
import { DataStreamsError } from '../../index.js'
import type { ConformanceError } from '../../testing/faults.js'
import { type CursorStoreTestOptions, testCursorStore } from '../../testing/test-cursor-store.js'
import { memoryCursors } from '../support/memory-cursors.js'
import { failureOf, pause } from '../support/waiting.js'
import { documentedRules } from './documented-rules.js'
import { inVirtualTime } from './in-virtual-time.js'

type Cursors = Readonly<Record<string, number>>

let folder: string
/** A timer that a store has left. */
let started: NodeJS.Timeout | undefined
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-cursors-'))
})
afterEach(() => {
  clearInterval(started)
  rmSync(folder, { recursive: true, force: true })
})

/** Reads at once: virtual time passes while a store waits for the thread pool. */
function readCursors(path: string): Cursors {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return {}
  }
}

/** The lock of a store, for streams of one process. */
function createLock(): Required<CursorStore>['lock'] {
  const queue: (() => void)[] = []
  let isHeld = false
  const next = (): void => {
    const first = queue.shift()
    isHeld = first !== undefined
    first?.()
  }
  return async signal => {
    signal.throwIfAborted()
    if (isHeld)
      await new Promise<void>((resolve, reject) => {
        queue.push(resolve)
        signal.addEventListener('abort', () => {
          queue.splice(queue.indexOf(resolve), 1)
          reject(signal.reason)
        })
      })
    isHeld = true
    let isReleased = false
    return async () => {
      if (!isReleased) next()
      isReleased = true
    }
  }
}

describe('stores without a fault', () => {
  test('fileCursors', async () => {
    const path = join(folder, 'cursors.json')
    const result = await testCursorStore(() => fileCursors(path), {
      fail() {
        rmSync(path)
        mkdirSync(path)
      },
    })
    expect(result).toEqual({ isLockable: true })
  })

  test('memoryCursors', async () => {
    const store = memoryCursors()
    expect(await testCursorStore(() => store)).toMatchObject({ isLockable: false })
  })

  test('one with a lock in memory, which is opened and closed', () =>
    inVirtualTime(async () => {
      const lock = createLock()
      const store = memoryCursors()
      const opened = new Set<CursorStore>()
      const open = async (): Promise<CursorStore> => {
        const timer = setInterval(() => undefined, 1000)
        const own = { load: store.load, save: store.save, lock, timer }
        opened.add(own)
        return own
      }
      const close = (own: CursorStore): void => {
        expect(opened.delete(own)).toBe(true)
        clearInterval((own as unknown as { timer: NodeJS.Timeout }).timer)
      }
      expect(await testCursorStore(open, { close })).toMatchObject({ isLockable: true })
      expect(opened.size).toBe(0)
      const rejecting: Required<CursorStore>['lock'] = async signal => {
        const late = AbortSignal.timeout(20)
        return lock(AbortSignal.any([signal, late]), () => undefined).catch(cause => {
          throw new DataStreamsError('another stream has the store', {
            code: 'CURSOR_STORE',
            cause,
          })
        })
      }
      await testCursorStore(() => ({
        load: store.load,
        save: store.save,
        lock: rejecting,
      })).catch(error => {
        // The store was not empty.
        expect(error.message).toContain('empty: load gave cursors of')
      })
      store.saved = {}
      await testCursorStore(() => ({ load: store.load, save: store.save, lock: rejecting }))
    }))
})

/** A store in memory whose members are replaced. */
function faulty(change: (store: CursorStore) => object): () => CursorStore {
  const store: CursorStore = memoryCursors()
  const { load, save } = store
  return () => ({ load, save, ...change({ load, save }) }) as CursorStore
}

/** A store with a lock that is replaced. */
const locked = (change: (lock: Required<CursorStore>['lock']) => Required<CursorStore>['lock']) => {
  const lock = change(createLock())
  return faulty(() => ({ lock }))
}

const own =
  (make: () => CursorStore | Promise<CursorStore>): (() => CursorStore | Promise<CursorStore>) =>
  () =>
    make()

const faults: readonly (readonly [
  rule: string,
  name: string,
  open: () => () => CursorStore | Promise<CursorStore>,
  options?: CursorStoreTestOptions,
])[] = [
  ['shape', 'has no save', () => own(() => ({ load: async () => ({}) }) as CursorStore)],
  ['shape', 'has a lock that is no function', () => faulty(() => ({ lock: true }))],
  ['promise', 'saves synchronously', () => faulty(() => ({ save: () => undefined }))],
  [
    'promise',
    'throws from load',
    () =>
      faulty(() => ({
        load() {
          throw new Error('no')
        },
      })),
  ],
  ['empty', 'begins with a cursor', () => faulty(() => ({ load: async () => ({ x: 1 }) }))],
  ['plain', 'begins with nothing', () => faulty(() => ({ load: async () => undefined }))],
  ['plain', 'loads a Map', () => faulty(() => ({ load: async () => new Map() }))],
  [
    'plain',
    'loads texts',
    () =>
      faulty(({ load }) => ({
        load: async () =>
          Object.fromEntries(Object.entries(await load()).map(([id, time]) => [id, String(time)])),
      })),
  ],
  [
    'loads',
    'rejects if it is empty',
    () =>
      faulty(() => ({
        async load() {
          throw new Error('ENOENT')
        },
      })),
  ],
  [
    'saves',
    'rejects a save of no cursors',
    () =>
      faulty(({ save }) => ({
        async save(cursors: Cursors) {
          if (Object.keys(cursors).length === 0) throw new Error('nothing to save')
          await save(cursors)
        },
      })),
  ],
  ['saved', 'does not save', () => faulty(() => ({ save: async () => undefined }))],
  [
    'saved',
    'swallows the error of a save',
    () =>
      own(() => {
        const path = join(folder, 'no', 'cursors.json')
        return {
          load: async () => readCursors(path),
          async save(cursors) {
            try {
              writeFileSync(path, JSON.stringify(cursors))
            } catch {}
          },
        }
      }),
  ],
  ['restart', 'keeps its cursors in the object', () => own(memoryCursors)],
  [
    'saved',
    'saves later',
    () =>
      faulty(({ save }) => ({
        async save(cursors: Cursors) {
          const given = { ...cursors }
          setTimeout(() => void save(given), 100)
        },
      })),
  ],
  [
    'replace',
    'keeps feeds that are gone',
    () =>
      faulty(({ load, save }) => ({
        save: async (cursors: Cursors) => save({ ...(await load()), ...cursors }),
      })),
  ],
  [
    'exact',
    'keeps 32 bits',
    () =>
      faulty(({ save }) => ({
        save: (cursors: Cursors) =>
          save(
            Object.fromEntries(
              Object.entries(cursors).map(([id, time]) => [id, time < 1e12 ? time | 0 : time]),
            ),
          ),
      })),
  ],
  [
    'exact',
    'leaves out the time 0',
    () =>
      faulty(({ load }) => ({
        load: async () => Object.fromEntries(Object.entries(await load()).filter(each => each[1])),
      })),
  ],
  [
    'many',
    'keeps 500 feeds',
    () =>
      faulty(({ save }) => ({
        save: (cursors: Cursors) => save(Object.fromEntries(Object.entries(cursors).slice(0, 500))),
      })),
  ],
  [
    'argument',
    'takes feeds out of the saved object',
    () =>
      faulty(({ save }) => ({
        async save(cursors: Record<string, number>) {
          await save(cursors)
          for (const id of Object.keys(cursors)) delete cursors[id]
        },
      })),
  ],
  [
    'argument copy',
    'keeps the saved object',
    () => {
      let saved: Cursors = {}
      return own(() => ({
        load: async () => ({ ...saved }),
        save: async cursors => {
          saved = cursors
        },
      }))
    },
  ],
  [
    'copy',
    'hands out its own object',
    () => {
      let saved: Cursors = {}
      return own(() => ({
        load: async () => saved,
        save: async cursors => {
          saved = { ...cursors }
        },
      }))
    },
  ],
  [
    'whole',
    'writes feed after feed',
    () => {
      const saved: Record<string, number> = {}
      return own(() => ({
        load: async () => ({ ...saved }),
        async save(cursors) {
          const given = { ...cursors }
          for (const id of Object.keys(saved)) if (!(id in given)) delete saved[id]
          for (const [index, [id, time]] of Object.entries(given).entries()) {
            saved[id] = time
            if (index % 100 === 0) await pause(1)
          }
        },
      }))
    },
  ],
  [
    'order',
    'takes longer for more feeds',
    () =>
      faulty(({ save }) => ({
        async save(cursors: Cursors) {
          const given = { ...cursors }
          await pause(Object.keys(given).length / 20)
          await save(given)
        },
      })),
  ],
  ['time', 'never answers', () => faulty(() => ({ load: () => new Promise(() => undefined) }))],
  [
    'failure',
    'takes a failure for an empty store',
    () => {
      const path = join(folder, 'cursors.json')
      return own(() => ({
        load: async () => readCursors(path),
        async save(cursors) {
          writeFileSync(path, JSON.stringify(cursors))
        },
      }))
    },
    {
      fail() {
        rmSync(join(folder, 'cursors.json'))
        mkdirSync(join(folder, 'cursors.json'))
      },
    },
  ],
  [
    'timers',
    'looks at its cursors each minute',
    () =>
      faulty(({ load }) => {
        return {
          load() {
            started ??= setInterval(() => undefined, 60_000)
            return load()
          },
        }
      }),
  ],
  ['lock', 'has a lock without a release', () => locked(() => async () => undefined as never)],
  [
    'lock-exclusive',
    'has a lock that locks nothing',
    () => locked(() => async () => async () => undefined),
  ],
  [
    'lock-exclusive',
    'lets one store lock twice',
    () => {
      const lock = createLock()
      const store = memoryCursors()
      return own(() => {
        let held = 0
        let release: (() => Promise<void>) | undefined
        return {
          load: store.load,
          save: store.save,
          async lock(signal, waiting) {
            if (held === 0) release = await lock(signal, waiting)
            held++
            return async () => {
              if (--held === 0) await release?.()
            }
          },
        }
      })
    },
  ],
  [
    'lock-error',
    'rejects with an error of its own',
    () => {
      let isHeld = false
      return locked(() => async () => {
        if (isHeld) throw new Error('locked')
        isHeld = true
        return async () => {
          isHeld = false
        }
      })
    },
  ],
  [
    'lock-error',
    'reports a wait with a text',
    () =>
      locked(lock => (signal, waiting) => {
        waiting('I wait' as never)
        return lock(signal, waiting)
      }),
  ],
  [
    'lock-wait',
    'forgets who waits',
    () => {
      let isHeld = false
      return locked(() => async () => {
        if (isHeld) await new Promise(() => undefined)
        isHeld = true
        return async () => {
          isHeld = false
        }
      })
    },
  ],
  [
    'lock-release',
    'releases once, and then fails',
    () =>
      locked(lock => async (signal, waiting) => {
        const release = await lock(signal, waiting)
        let isReleased = false
        return async () => {
          if (isReleased) throw new Error('released already')
          isReleased = true
          await release()
        }
      }),
  ],
  [
    'lock-exclusive',
    'releases the lock of another stream',
    () => {
      let held: (() => Promise<void>) | undefined
      return locked(lock => async (signal, waiting) => {
        held = await lock(signal, waiting)
        return async () => held?.()
      })
    },
  ],
  [
    'lock-abort',
    'waits on after an abort',
    () => locked(lock => (_signal, waiting) => lock(new AbortController().signal, waiting)),
  ],
  [
    'promise',
    'throws from lock',
    () =>
      locked(() => () => {
        throw new Error('no')
      }),
  ],
]

describe('a fault is found', () => {
  test.each(faults)('%s: a store that %s', async (...row) => {
    const [rules, , open, options] = row
    const error = await failureOf(inVirtualTime(() => testCursorStore(open(), options)))
    expect(error).toMatchObject({ name: 'ConformanceError', code: 'CONFORMANCE' })
    const { faults } = error as unknown as ConformanceError
    expect(rules.split(' ')).toContain(faults[0]?.rule)
    expect(faults).toHaveLength(1)
  })

  test('a message says what was found, and where', async () => {
    const error = await failureOf(inVirtualTime(() => testCursorStore(memoryCursors)))
    expect(error.message).toMatch(
      /^store of cursors broke a rule:\n {2}restart: from a newly opened store, load gave other cursors: 0x\w{64} is missing \(two cursors\)$/,
    )
  })
})

test('a failing store may reject', async () => {
  const path = join(folder, 'cursors.json')
  let isBroken = false
  const check = (): void => {
    if (isBroken) throw new Error('broken')
  }
  await testCursorStore(
    () => ({
      async load() {
        check()
        return readCursors(path)
      },
      async save(cursors) {
        check()
        writeFileSync(path, JSON.stringify(cursors))
      },
    }),
    {
      fail() {
        isBroken = true
      },
    },
  )
})

test.each([
  [{ fails: 5 }, "unknown option 'fails' of testCursorStore; did you mean 'fail'?"],
  [{ fail: true }, 'fail must be a function, not boolean'],
  [{ close: {} }, 'close must be a function, not object'],
])('the options %p are refused', async (options, message) => {
  const error = await failureOf(testCursorStore(memoryCursors, options as never))
  expect(error).toMatchObject({ code: 'VALIDATION', message })
})

test('what is no function is refused', async () => {
  const error = await failureOf(testCursorStore(memoryCursors() as never))
  expect(error).toMatchObject({
    code: 'VALIDATION',
    message: 'open must be a function, not object',
  })
})

test('every rule of the docs has a fault that breaks it', () => {
  const planted = faults.flatMap(([rules]) => rules.split(' '))
  expect(documentedRules('A store of cursors')).toEqual([...new Set([...planted])].sort())
})
