// Faults that a stranger planted, in plugins of a few lines.
import { expect, test } from '@jest/globals'
import type { Plugin } from '../../client/contract/plugin.js'
import { APIError, type Call, type Reply } from '../../client/index.js'
import type { Report } from '../../report/report.js'
import { ConformanceError, type PluginTestOptions, testPlugin } from '../../testing/index.js'

/** Wraps each call. */
const onCall = (wrap: (next: () => Promise<Reply>, call: Call) => Promise<Reply>): Plugin => ({
  name: 'faulty',
  call: next => call => wrap(() => next(call), call),
})

/** Handles each report of a stream. */
const onReport = (handle: (next: (report: Report) => void, report: Report) => void): Plugin => ({
  name: 'faulty',
  report: (next, scope) => (scope.kind === 'request' ? next : report => handle(next, report)),
})

const seen = new Set<string>()
let count = 0
const faults: Readonly<
  Record<
    string,
    readonly [rule: string, make: () => Plugin, options?: PluginTestOptions, scenario?: string]
  >
> = {
  'a request of its own goes through it again, without end': [
    'loop',
    () =>
      onCall(async (next, call) => {
        try {
          return await next()
        } catch (error) {
          if (call.operation !== 'getLatestReport') throw error
          const feedID = new URL(call.url).searchParams.get('feedID') as string
          await call.scope.client.getLatestReport(feedID)
          throw error
        }
      }),
  ],
  'it answers in place of a failed call, and does not say so': [
    'reply',
    () =>
      onCall(async (next, call) => {
        try {
          return await next()
        } catch (error) {
          if (call.kind === 'stream' || call.purpose !== 'user') throw error
          const { client, signal } = call.scope as Extract<Call, { kind: 'request' }>['scope']
          const { method, url, operation } = call
          return client.request(method, url, { operation, headers: new Headers(), signal })
        }
      }),
  ],
  'no error may be tried again': [
    'reply',
    () => ({
      name: 'faulty',
      attempt: next => call =>
        next(call).catch(error => {
          throw new APIError(error.message, { isRetryable: false })
        }),
    }),
  ],
  'every error is a timeout': [
    'reply',
    () =>
      onCall(next =>
        next().catch(() => {
          throw new APIError('too late', { code: 'API_TIMEOUT' })
        }),
      ),
  ],
  'reports that wait are shared by all streams': [
    'hold',
    () => {
      let waiting: (() => void)[] = []
      return {
        name: 'faulty',
        report: (next, scope) => {
          if (scope.kind === 'request') return next
          const flush = (): void => {
            for (const pass of waiting.splice(0)) pass()
          }
          const timer = setInterval(flush, 100)
          scope.events.on('ending', flush)
          const ends: (() => void)[] = []
          scope.defer(() => {
            clearInterval(timer)
            waiting = []
            for (const end of ends) end()
          })
          return report =>
            scope.waitUntil(
              new Promise<void>(resolve => {
                ends.push(resolve)
                waiting.push(() => {
                  next(report)
                  resolve()
                })
              }),
              report,
            )
        },
      }
    },
    { may: ['delay'] },
  ],
  'reports that wait for a tenth of a second are lost when the stream ends': [
    'ending',
    () => ({
      name: 'faulty',
      report: (next, scope) => {
        if (scope.kind === 'request') return next
        const timers = new Map<ReturnType<typeof setTimeout>, () => void>()
        scope.defer(() => {
          for (const [timer, end] of timers) {
            clearTimeout(timer)
            end()
          }
        })
        return report =>
          scope.waitUntil(
            new Promise<void>(resolve => {
              const timer = setTimeout(() => {
                timers.delete(timer)
                resolve(next(report))
              }, 100)
              timers.set(timer, resolve)
            }),
            report,
          )
      },
    }),
    { may: ['delay'] },
  ],
  'a decoded field is changed': [
    'mutate',
    () =>
      onReport((next, report) => {
        ;(report.decoded as { version?: string }).version = 'V0'
        next(report)
      }),
  ],
  'a field is added': [
    'mutate',
    () => onReport((next, report) => next(Object.assign(report, { seenAt: 1 }))),
  ],
  'a field is changed after the delivery': [
    'mutate',
    () =>
      onReport((next, report) => {
        next(report)
        Object.defineProperty(report, 'fullReport', { value: '0x' })
      }),
  ],
  'each stream leaves a timer until the client is closed': [
    'timer',
    () => {
      const timers: ReturnType<typeof setInterval>[] = []
      return {
        name: 'faulty',
        setup: scope => scope.defer(() => timers.splice(0).forEach(clearInterval)),
        report: (next, scope) => {
          if (scope.kind === 'stream') timers.push(setInterval(() => undefined, 1000))
          return next
        },
      }
    },
  ],
  'a stream is aborted by the time limit of requests': [
    'reply',
    () => ({
      name: 'faulty',
      call: next => call => {
        const signal = AbortSignal.any([call.signal, AbortSignal.timeout(30_000)])
        return next({ ...call, signal } as Call)
      },
    }),
    { may: ['refuse'] },
  ],
  'a report of which it knows no decoder is lost': [
    'throws',
    () =>
      onReport((next, report) => {
        void report.decoded
        next(report)
      }),
  ],
  'a quiet stream is ended': [
    'reply',
    () => ({
      name: 'faulty',
      report: (next, scope) => {
        if (scope.kind === 'request') return next
        let timer: ReturnType<typeof setTimeout> | undefined
        scope.defer(() => clearTimeout(timer))
        return report => {
          clearTimeout(timer)
          timer = setTimeout(() => scope.flow.fail(new APIError('it is quiet')), 60_000)
          next(report)
        }
      },
    }),
    {},
    'a stream',
  ],
  'what was seen is shared by all clients': [
    'streams',
    () =>
      onReport((next, report) => {
        const key = `${report.feedID} ${report.observationsTimestamp}`
        if (!seen.has(key)) next(report)
        seen.add(key)
      }),
    { may: ['drop'] },
    'streams side by side, of two clients',
  ],
  'live reports of a second origin are lost': [
    'drop',
    () => ({
      name: 'faulty',
      report: (next, scope) => {
        let first: string | undefined
        return report => {
          if (scope.kind === 'stream' && report.source === 'live') {
            first ??= report.origin
            if (report.origin !== first) return
          }
          next(report)
        }
      },
    }),
    {},
    'a stream over two origins',
  ],
  'it takes reports, and acknowledges them at once': [
    'flow',
    () => ({
      name: 'faulty',
      report: (next, scope) => report => {
        if (scope.kind === 'stream') scope.cursors.hold(report)
        next(report)
        if (scope.kind === 'stream') scope.cursors.release(report)
      },
    }),
    {},
    'streams that are read slowly, or acknowledged by hand',
  ],
  'an upgrade that waits goes on after the close': [
    'abort',
    () => ({
      name: 'faulty',
      attempt: next => async call => {
        if (call.kind === 'stream') await new Promise(resolve => setTimeout(resolve, 5))
        return next(call)
      },
    }),
    {},
    'a stream that ends in the midst of something',
  ],
  'each thousandth report is lost': [
    'drop',
    () =>
      onReport((next, report) => {
        if (++count % 1000 !== 0) next(report)
      }),
  ],
}

test.each(Object.entries(faults))('%s', async (_, [rule, make, options, scenario]) => {
  const error = await testPlugin(make, options).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(ConformanceError)
  const found = (error as ConformanceError).faults.find(fault => fault.rule === rule)
  expect(found?.where).toMatch(scenario ?? /./)
  expect((error as ConformanceError).message).toContain('plugin faulty')
})

const passing = (): Plugin => ({ name: 'passing', report: next => next })

test.each<readonly [() => unknown, PluginTestOptions, string]>([
  [() => undefined, {}, 'make must return a plugin, an object with a name, and not undefined'],
  [() => 5, {}, 'make must return a plugin, an object with a name'],
  [async () => passing(), {}, 'make must return a plugin, and not a promise'],
  [() => ({ name: 'none' }), {}, 'make: the plugin none has no hook, so there is nothing to test'],
  [() => ({ name: 'odd', reprot: 1 }), {}, 'plugins[0] (odd)'],
  [() => ({ name: 'odd', report: 'x' }), {}, 'plugins[0] (odd): report must be a function'],
  [passing, { stack: () => [] }, 'stack must return an array with the plugin that it was given'],
  [passing, { stack: (() => 5) as never }, 'stack must return an array with the plugin'],
  [
    passing,
    { feedIDs: ['a', 'b', 'c'] },
    'feedIDs[0] must be 0x and 64 hexadecimal digits, not "a"',
  ],
  [
    passing,
    { feedIDs: Array(3).fill(`0x0003${'ab'.repeat(30)}`) },
    'feedIDs must name at least three feeds that differ',
  ],
])('bad input gets an error that names it: %#', async (make, options, message) => {
  const error = await testPlugin(make as () => Plugin, options).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'VALIDATION', message: expect.stringContaining(message) })
})
