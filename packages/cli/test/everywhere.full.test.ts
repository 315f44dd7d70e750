import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type FaultProxy, startFaultProxy } from '@sluice/engine'
import { command, startCommand } from '@sluice/test-support/command.js'
import { withoutControls } from '@sluice/test-support/controls.js'
import { hasTerminals, runInTerminal } from '@sluice/test-support/terminal.js'
import { type Case, cases, pipelines, World } from './support/cli/every-command.js'

let world: World
let proxy: FaultProxy
beforeAll(async () => {
  world = await World.start()
  proxy = await startFaultProxy({
    upstream: world.engine.endpoint,
    seed: 3,
    // Requests and streams, now and then.
    script: [{ every: 5, at: 'middle', frame: 3, do: 'reset' }],
  })
  await proxy.set({ latencyMs: 20, jitterMs: 20 })
})
afterAll(async () => {
  await proxy.close()
  await world[Symbol.asyncDispose]()
})

type Env = Readonly<Record<string, string>>

/** A service behind a proxy that resets connections may deviate from its documentation. */
function expectSuccess(name: string, code: number | null): void {
  expect([name, name === 'certify' && code === 6 ? 0 : code]).toEqual([name, 0])
}

async function inPipe(name: string, { args, until: shown, pipe }: Case, env: Env): Promise<void> {
  const { child, ended, shows } = startCommand([name, ...args], {
    cwd: world.ownFolder(name),
    env,
  })
  if (shown !== undefined) {
    await shows(shown)
    child.kill('SIGINT')
  }
  const { out, err, code } = await ended
  expect([name, out, err]).toEqual([name, expect.stringMatching(pipe), expect.anything()])
  expectSuccess(name, code)
  // Nothing that only a terminal understands.
  expect([name, out.includes('\x1b'), err.includes('\r')]).toEqual([name, false, false])
}

async function inTerminal(
  name: string,
  { args, until: shown, terminal }: Case,
  env: Env,
): Promise<void> {
  const options = {
    cwd: world.ownFolder(name),
    env,
    ...(shown === undefined ? {} : { until: shown }),
  }
  const { out, code } = await runInTerminal([name, ...args], options)
  expect([name, withoutControls(out)]).toEqual([name, expect.stringMatching(terminal)])
  expectSuccess(name, code)
}

const services = {
  engine: () => world.env(),
  proxy: () => world.env({ endpoint: proxy.url, wsEndpoint: proxy.wsURL }),
}
const ways = (['engine', 'proxy'] as const).flatMap(
  service =>
    [
      [service, 'a pipe'],
      [service, 'a terminal'],
    ] as const,
)

for (const [service, where] of ways) {
  const testWay = where === 'a pipe' || hasTerminals ? test : test.skip
  testWay(
    `every command in ${where}, against the ${service}`,
    async () => {
      const run = where === 'a pipe' ? inPipe : inTerminal
      const names = Object.entries(cases)
      // More at once would wait for each other.
      for (let at = 0; at < names.length; at += 4)
        await Promise.all(
          names.slice(at, at + 4).map(([name, each]) => run(name, each, services[service]())),
        )
    },
    120_000,
  )
}

test('the proxy broke connections meanwhile', () => {
  expect(proxy.log().some(({ event }) => event === 'reset')).toBe(true)
})

const shell = promisify(execFile)
const times = 100

test.each(pipelines)(
  `sluice %s: ${times} times of ${times}`,
  async (pipeline, expected) => {
    const script = `sluice() { '${process.execPath}' '${command}' "$@"; }; sluice ${pipeline}`
    const env = { PATH: process.env.PATH, ...world.env() }
    for (let at = 0; at < times; at += 2)
      await Promise.all(
        [1, 2].map(async () => {
          const { stdout, stderr } = await shell('sh', ['-c', script], { cwd: world.folder, env })
          expect(stderr).toBe('')
          expect(stdout).toMatch(expected)
        }),
      )
  },
  300_000,
)
