import { execFile } from 'node:child_process'

import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type DataEngine, type FaultProxy, startDataEngine, startFaultProxy } from '@sluice/engine'
import { command, startCommand } from '@sluice/test-support/command.js'
import { withoutControls } from '@sluice/test-support/controls.js'
import { inForm, isLong } from '@sluice/test-support/long.js'
import { hasTerminals, runInTerminal } from '@sluice/test-support/terminal.js'
import { until } from '@sluice/test-support/waiting.js'

let engine: DataEngine
let proxy: FaultProxy
const folder = mkdtempSync(join(tmpdir(), 'sluice-everywhere-'))
beforeAll(async () => {
  engine = await startDataEngine({ origins: 2, intervalMs: 100, runAhead: true, history: 30 })
  writeFileSync(join(folder, 'signers.json'), JSON.stringify(engine.network))
  const [report] = engine.ledger()
  writeFileSync(join(folder, 'report.json'), JSON.stringify(report))
  proxy = await startFaultProxy({
    upstream: engine.endpoint,
    seed: 3,
    // Requests and streams, now and then.
    script: [{ every: 5, at: 'middle', frame: 3, do: 'reset' }],
  })
  await proxy.set({ latencyMs: 20, jitterMs: 20 })
})
afterAll(async () => {
  await proxy.close()
  await engine.close()
  rmSync(folder, { recursive: true })
})

/** A command, what ends it if not itself, and what it prints on a terminal and in a pipe. */
interface Case {
  readonly args: readonly string[]
  readonly until?: RegExp
  readonly terminal: RegExp
  readonly pipe: RegExp
}

const signed = ['--signers', 'signers.json']
const line = /ETH\/USD +V3 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ +price \d+\.\d{4} /
const cases: Readonly<Record<string, Case>> = {
  feeds: {
    args: [],
    terminal: /ETH\/USD +0x0003[0-9a-f]{60} +Crypto/,
    pipe: /^0x0003[0-9a-f]{60}\n0x/,
  },
  latest: { args: ['ETH/USD'], terminal: /price +\d+\.\d+\n/, pipe: /price +\d+\.\d+\n/ },
  page: { args: ['ETH/USD', '--from', '1h', '--limit', '3'], terminal: line, pipe: line },
  bulk: {
    args: ['ETH/USD,BTC/USD', '--json'],
    terminal: /"prices":\{/,
    pipe: /^\{.*\}\n\{.*\}\n$/,
  },
  history: {
    args: ['ETH/USD', '--from', '1h', '--to', '2s', '--csv'],
    terminal: /\nfeedID,name|^feedID,name/,
    pipe: /^feedID,name.*\n(0x.*\n){25}/,
  },
  gaps: {
    args: ['--feed', 'ETH/USD', '--from', '1h'],
    terminal: /\d reports of 1 feed: no gaps/,
    pipe: /^\d+ reports of 1 feed: no gaps\n$/,
  },
  decode: { args: ['report.json'], terminal: /version +V\d/, pipe: /^version +V\d/ },
  verify: {
    args: ['report.json', ...signed],
    terminal: /verified: signed by 2/,
    pipe: /^verified: signed by 2/,
  },
  stream: {
    args: ['ETH/USD', 'BTC/USD', '--ha', ...signed],
    until: /BTC\/USD +(V3|\d)/,
    terminal: /\d reports, \d+ verified, duplicates/,
    pipe: line,
  },
  doctor: {
    args: ['ETH/USD', '--seconds', '0.5'],
    terminal: /origin 002: connected.*\d failed, \d warn/s,
    pipe: /^ok +node .*\nok +feeds +ETH\/USD 0x0003.*\d failed, \d warn/s,
  },
  certify: {
    args: ['ETH/USD', 'BTC/USD', '--for', '2s', '--rate', '10'],
    terminal: /pass +origin-list.*- Service: other, REST at 127/s,
    pipe: /^# 127.*\n## Checks\n.*\| `bulk` \| .* \| pass \| 200 with 2 of 2/s,
  },
  record: {
    args: ['ETH/USD', '--dir', 'recording', '--from', '1h', '--flush', '20'],
    until: /is connected/,
    terminal: /\d reports? written/,
    pipe: /^$/,
  },
  replay: {
    args: ['report.json', '--port', '0'],
    until: /published/,
    terminal: /WS_URL=ws:.*1 report published/s,
    pipe: /WS_URL=ws:/,
  },
  serve: {
    args: ['--port', '0', '--signers-out', 'x.json'],
    until: /0x000e/,
    terminal: /signers; f is 1:\n {2}0x/,
    pipe: /USER_SECRET=/,
  },
}

const services = {
  engine: () => engine,
  proxy: () => ({ endpoint: proxy.url, wsEndpoint: proxy.wsURL }),
}

function envOf(service: keyof typeof services): Record<string, string> {
  const { endpoint, wsEndpoint } = services[service]()
  const { apiKey, userSecret } = engine
  return { API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint }
}

/** Where it runs: a directory of its own for what it writes. */
function folderOf(name: string): string {
  const own = mkdtempSync(join(folder, `${name}-`))
  for (const file of ['signers.json', 'report.json'])
    copyFileSync(join(folder, file), join(own, file))
  return own
}

async function inPipe(
  name: string,
  { args, until: shown, pipe }: Case,
  env: Record<string, string>,
): Promise<void> {
  const { child, output, ended } = startCommand([name, ...args], { cwd: folderOf(name), env })
  if (shown !== undefined) {
    await until(() => shown.test(output.out + output.err) || child.exitCode !== null, 20_000)
    child.kill('SIGINT')
  }
  const { out, err, code } = await ended
  expect([name, out, err]).toEqual([name, expect.stringMatching(pipe), expect.anything()])
  expect([name, code]).toEqual([name, 0])
  // Nothing that only a terminal understands.
  expect([name, out.includes('\x1b'), err.includes('\r')]).toEqual([name, false, false])
}

async function inTerminal(
  name: string,
  { args, until: shown, terminal }: Case,
  env: Record<string, string>,
): Promise<void> {
  const options = { cwd: folderOf(name), env, ...(shown === undefined ? {} : { until: shown }) }
  const { out, code } = await runInTerminal([name, ...args], options)
  expect([name, withoutControls(out)]).toEqual([name, expect.stringMatching(terminal)])
  // A service behind a proxy that resets connections may deviate from its documentation.
  expect([name, name === 'certify' && code === 6 ? 0 : code]).toEqual([name, 0])
}

const ways = isLong
  ? (['engine', 'proxy'] as const).flatMap(
      service =>
        [
          [service, 'a pipe'],
          [service, 'a terminal'],
        ] as const,
    )
  : ([['engine', 'a pipe']] as const)

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
          names.slice(at, at + 4).map(([name, each]) => run(name, each, envOf(service))),
        )
    },
    120_000,
  )
}

// The short form runs no command against the proxy.
const testProxy = isLong && hasTerminals ? test : test.skip
testProxy('the proxy broke connections meanwhile', () => {
  expect(proxy.log().some(({ event }) => event === 'reset')).toBe(true)
})

const shell = promisify(execFile)
const times = inForm(2, 100)

test.each([
  ['latest ETH/USD --json | sluice verify - --signers signers.json', /^verified: signed by 2/],
  ['history ETH/USD --from 1h --json | sluice decode - --csv', /^feedID,name.*\n(0x.*\n){30}/],
])(
  `sluice %s: ${times} times of ${times}`,
  async (pipeline, expected) => {
    const script = `sluice() { '${process.execPath}' '${command}' "$@"; }; sluice ${pipeline}`
    for (let at = 0; at < times; at += 2)
      await Promise.all(
        [1, 2].map(async () => {
          const { stdout, stderr } = await shell('sh', ['-c', script], {
            cwd: folder,
            env: { PATH: process.env.PATH, ...envOf('engine') },
          })
          expect(stderr).toBe('')
          expect(stdout).toMatch(expected)
        }),
      )
  },
  300_000,
)
