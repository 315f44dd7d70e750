import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { until } from '@sluice/test-support/waiting.js'
import { callerText, runProgram } from '../support/program.js'
import { inputOf } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

let world: World
beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
})
afterAll(() => world.close())

const given = (kind: 'local' | 'remote', path = '/', timeout?: string) => ({
  ...callerText(world, kind),
  input: inputOf(world, path, timeout),
})

const both = ['local', 'remote'] as const
describe.each(both)('with a %s runtime', kind => {
  test.each(['cjs', 'esm'] as const)(
    'the same program runs on the built package, as %s, and ends by itself, its runtime not closed',
    async format => {
      const { code, out } = await runProgram(
        `async function main() {
           const runtime = createRuntime()
           console.log(sluice.text(client.sendRequest(runtime, input).result()))
           console.log(sluice.text(await client.sendRequestAsync(runtime, input)))
         }
         main()`,
        // Which format the enclave's stack has is a matter of its own.
        { ...given(kind), options: { ...given(kind).options, stack: undefined } },
        [],
        format,
      )
      expect(out).toBe('an answer of the external server\nan answer of the external server\n')
      expect(code).toBe(0)
    },
  )

  test.each([
    ['a runtime that was never used', 'createRuntime()', '/'],
    ['a request nobody awaits', 'client.sendRequest(createRuntime(), input)', '/hang'],
    [
      'a request that is aborted',
      `const controller = new AbortController()
       client.sendRequestAsync(createRuntime(), input, { signal: controller.signal }).catch(error => console.log(error.name))
       setTimeout(() => controller.abort(), 300)`,
      '/hang',
    ],
    [
      'requests that fail at close',
      `const runtime = createRuntime()
       const one = client.sendRequestAsync(runtime, input).catch(error => console.log(error.code))
       const other = client.sendRequest(runtime, input)
       setTimeout(() => { runtime.close(); try { other.result() } catch (error) { console.log(error.code) } }, 300)`,
      '/hang',
    ],
    [
      'an enclave that can not be opened',
      `createRuntime(given.kind === 'local' ? { vault: '/nowhere' } : { url: 'http://127.0.0.1:1' })
       setTimeout(() => {}, 400)`,
      '/',
    ],
  ])('a process ends by itself after %s', async (_name, body, path) => {
    // Waiting for the answer would take it as long as the request's timeout, which is longer than that of the test.
    const { code, out } = await runProgram(
      `process.on('exit', () => console.log('end')); ${body}`,
      given(kind, path, '90s'),
    )
    expect(out).toMatch(/^((AbortError|CLOSED)\n)*end\n$/)
    expect(code).toBe(0)
  })

  test('a process stays alive while something is awaited', async () => {
    world.hits.length = 0
    const running = runProgram(
      `client.sendRequestAsync(createRuntime(), input).then(({ statusCode }) => console.log(statusCode))`,
      given(kind, '/hold'),
    )
    await Promise.race([running, until(() => world.hits.length > 0)])
    world.release()
    const { code, out } = await running
    expect(out).toBe('200\n')
    expect(code).toBe(0)
  })
})

test('what others load into every thread does no harm', async () => {
  const { code, out } = await runProgram(
    `console.log(client.sendRequest(createRuntime(), input).result().statusCode)`,
    given('local'),
    [
      '--import',
      'data:text/javascript,process.on("warning",()=>{})',
      '--unhandled-rejections=warn',
      '--no-warnings',
    ],
  )
  expect(out).toBe('200\n')
  expect(code).toBe(0)
})

test.each(['warn', 'strict'])(
  'a rejection inside that nobody caught is not printed, with --unhandled-rejections=%s',
  async mode => {
    const { out } = await runProgram(
      `client.sendRequestAsync(createRuntime(), input).catch(error => console.log(error.message))`,
      given('local', '/reject-later'),
      [`--unhandled-rejections=${mode}`],
    )
    expect(out).toBe(
      "the enclave's thread ended: nobody caught an error, Error; the next request starts another; the request may have been carried out\n",
    )
  },
)
