import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { callerText, runProgram } from '../support/program.js'
import { inputOf } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

let world: World
beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
})
afterAll(() => world.close())

/** What a caller holds, once all that can go is gone. */
const measure = `
  const { readdirSync, readFileSync } = require('node:fs')
  const pause = ms => new Promise(resolve => setTimeout(resolve, ms))
  const tasks = () => process.platform === 'linux' ? readdirSync('/proc/self/task').length : 0
  const files = () => process.platform === 'linux' ? readdirSync('/proc/self/fd').length : 0
  async function measure() {
    for (let turn = 0; turn < 3; turn++) { await pause(20); gc() }
    const { heapUsed, arrayBuffers, rss } = process.memoryUsage()
    return { tasks: tasks(), files: files(), heapUsed, arrayBuffers, rss, resources: process.getActiveResourcesInfo().sort().join() }
  }
`

interface Measured {
  readonly tasks: number
  readonly files: number
  readonly heapUsed: number
  readonly arrayBuffers: number
  readonly rss: number
  readonly resources: string
}

const MB = 2 ** 20

function expectNoMore(after: Measured | undefined, before: Measured | undefined): void {
  if (after === undefined || before === undefined) throw new Error('nothing was measured')
  expect(after.resources).toBe(before.resources)
  expect(after.tasks).toBeLessThanOrEqual(before.tasks)
  // Sockets that are kept for the next request are no more than were open at once.
  expect(after.files).toBeLessThanOrEqual(before.files + 4)
  expect(after.heapUsed).toBeLessThan(before.heapUsed + 3 * MB)
  expect(after.arrayBuffers).toBeLessThan(before.arrayBuffers + 3 * MB)
}

test.each(['local', 'remote'] as const)(
  '%s: two hundred requests, twenty at a time, leave nothing behind',
  async kind => {
    const input = inputOf(world, '/')
    const { out, code } = await runProgram(
      `${measure}
       async function main() {
         const runtime = createRuntime()
         // Secrets cost time: every fourth request has one.
         const batch = async () => {
           const all = await Promise.all(Array.from({ length: 20 }, (_, index) => client.sendRequestAsync(runtime, index % 4 ? given.plain : input)))
           if (all.some(({ statusCode }) => statusCode !== 200)) throw new Error('not 200')
         }
         await batch()
         const measured = [await measure()]
         for (let turn = 0; turn < 10; turn++) { await batch(); if (turn % 5 === 4) measured.push(await measure()) }
         for (let turn = 0; turn < 50; turn++) client.sendRequest(runtime, turn % 4 ? given.plain : input).result()
         measured.push(await measure())
         await runtime.close()
         console.log(JSON.stringify(measured))
       }
       main()`,
      {
        ...callerText(world, kind),
        input,
        plain: { request: { ...input.request, bodyString: '', multiHeaders: {} } },
      },
      ['--expose-gc'],
    )
    const measured = JSON.parse(out) as Measured[]
    expectNoMore(measured[1], measured[0])
    expectNoMore(measured[2], measured[1])
    expectNoMore(measured[3], measured[2])
    expect(code).toBe(0)
    expect(await world.connections()).toBe(0)
    // The thread's own heap is not that of the caller; what the process takes tells of both.
    expect((measured[3] as Measured).rss).toBeLessThan((measured[1] as Measured).rss * 1.5)
  },
  60_000,
)

test('twenty runtimes that were closed, and threads that died, leave nothing behind', async () => {
  const input = inputOf(world, '/')
  const plain = { request: { ...input.request, bodyString: '', multiHeaders: {} } }
  const { out, code } = await runProgram(
    `${measure}
     const to = path => ({ ...input, request: { ...input.request, url: input.request.url + path, timeout: '200ms' } })
     async function main() {
       const measured = []
       for (let turn = 0; turn < 20; turn++) {
         const runtime = createRuntime()
         if (turn % 8 === 0) await client.sendRequestAsync(runtime, input)
         // One that is ended while it reads its secrets.
         if (turn % 4 === 3) {
           await client.sendRequestAsync(runtime, given.plain)
           client.sendRequestAsync(runtime, input).catch(() => {})
           await pause(2 + turn / 4)
         }
         const fault = { 1: 'exit', 2: 'spin' }[turn % 8]
         if (fault) await client.sendRequestAsync(runtime, to(fault)).catch(() => {})
         const closing = [runtime.close(), runtime.close()]
         await Promise.all(closing)
         if (turn === 0 || turn === 19) measured.push(await measure())
       }
       // A thread that had to be ended may take its time to let go of its files.
       for (let more = 0; more < 20 && measured[1].files > measured[0].files + 4; more++) {
         await pause(100)
         measured[1] = await measure()
       }
       console.log(JSON.stringify(measured))
     }
     main()`,
    { ...callerText(world, 'local'), input, plain },
    ['--expose-gc'],
  )
  const measured = JSON.parse(out) as Measured[]
  expectNoMore(measured[1], measured[0])
  expect(measured[1]?.resources).not.toMatch(/MessagePort|Worker/)
  expect(code).toBe(0)
})
