import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { callerText, type Ran, runProgram } from '../support/program.js'
import { failing, inputOf, localRuntime } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

const secret = 'a secret of 31 letters and more'
let world: World
beforeAll(async () => {
  world = await startWorld({ apiKey: secret })
})
afterAll(() => world.close())

const spy = join(__dirname, '../support/spy.cjs')
const everything = 'http,https,tls,net,stream,worker,undici,fs,module,esm,timer,http2,fetch'

function send(
  kind: 'local' | 'remote',
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  return runProgram(
    `const runtime = createRuntime()
     console.log('status', client.sendRequest(runtime, input).result().statusCode)
     runtime.close()`,
    { ...callerText(world, kind), input: inputOf(world, '/') },
    args,
    'cjs',
    env,
  )
}

/** As it is, and as the dump of a buffer shows it. */
function expectNoSecret(out: string): void {
  expect(out).not.toContain(secret)
  expect(out.replace(/\s+/g, '')).not.toContain(Buffer.from(secret.slice(0, 12)).toString('hex'))
}

describe.each(['local', 'remote'] as const)('with a %s runtime', kind => {
  test('NODE_DEBUG prints no secret', async () => {
    const { out, code } = await send(kind, [], {
      NODE_DEBUG: everything,
      NODE_DEBUG_NATIVE: 'http,worker',
    })
    expect(out).toContain('status 200')
    // It does print something: what the calling thread does.
    expect(out).toMatch(/^WORKER \d+: /m)
    expectNoSecret(out)
    expect(code).toBe(0)
  })

  test.each<[string, readonly string[], Readonly<Record<string, string>>]>([
    ['--require', ['--require', spy], {}],
    ['--import', ['--import', pathToFileURL(spy).href], {}],
    ['NODE_OPTIONS', [], { NODE_OPTIONS: `--require=${JSON.stringify(spy)}` }],
  ])('what is preloaded by %s does not run beside the secrets', async (_how, args, env) => {
    const { out, code } = await send(kind, args, env)
    expect(out).toContain('status 200')
    expect(out).toContain('spy loaded in the main thread')
    expect(out).not.toContain('spy loaded in a thread')
    expectNoSecret(out)
    expect(code).toBe(0)
  })
})

test('a thread has neither the flags nor the variables of its process, but for those of the network', async () => {
  const { out } = await runProgram(
    `const runtime = createRuntime({ env: { STACK_NEEDS: 'this' } })
     const reply = client.sendRequest(runtime, input).result()
     console.log(sluice.text(reply))
     runtime.close()`,
    { ...callerText(world, 'local'), input: inputOf(world, '/thread') },
    [
      ...['--conditions', 'other', '--experimental-vm-modules', '--stack-trace-limit=5'],
      ...['--dns-result-order', 'ipv4first', '--max-old-space-size=200'],
    ],
    'cjs',
    {
      NODE_OPTIONS: '--no-warnings --tls-min-v1.3',
      NODE_DEBUG: 'nothing',
      HTTPS_PROXY: 'http://localhost:1',
      API_KEY: 'x',
    },
  )
  expect(JSON.parse(out)).toEqual({
    env: { HTTPS_PROXY: 'http://localhost:1', STACK_NEEDS: 'this' },
    execArgv: ['--tls-min-v1.3', '--dns-result-order', 'ipv4first'],
    order: 'ipv4first',
  })
})

test('no variable may bring back what a thread is kept free of', () => {
  for (const name of ['NODE_OPTIONS', 'NODE_DEBUG', 'NODE_DEBUG_NATIVE', 'node_options'])
    expect(failing(() => localRuntime(world, { env: { [name]: '' } })).error).toMatchObject({
      code: 'VALIDATION',
      message: expect.stringContaining(`env.${name} must not be set`),
    })
  expect(failing(() => localRuntime(world, { env: { A: 1 } as never })).error).toMatchObject({
    message: 'env.A must be a string',
  })
})
