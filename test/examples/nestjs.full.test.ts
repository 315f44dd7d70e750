// Runs the application of examples/nestjs as a process, ends it by SIGTERM and starts it again. The engine's ledger says what may
// not be lost.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeAll, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import ts from 'typescript'
import { root } from '../support/sources.js'
import { until } from '../support/waiting.js'

const feedID = `0x1003${'7e'.repeat(30)}`
const source = join(root, 'examples', 'nestjs')
/** Where the programs find the library and Nest, and git finds nothing. */
const out = join(root, 'examples', '.out', 'nestjs')
const [prices, cursors] = [join(out, 'prices.txt'), join(out, 'cursors.json')]

let engine: DataEngine | undefined
let child: ChildProcess | undefined

/** Compiles the example as Nest does: to CommonJS, with the types of decorated parameters. */
beforeAll(() => {
  rmSync(out, { recursive: true, force: true })
  mkdirSync(out, { recursive: true })
  writeFileSync(join(out, 'package.json'), '{ "type": "commonjs" }')
  for (const file of readdirSync(source).filter(name => name.endsWith('.ts'))) {
    const { outputText } = ts.transpileModule(readFileSync(join(source, file), 'utf8'), {
      compilerOptions: {
        target: ts.ScriptTarget.ES2022,
        module: ts.ModuleKind.CommonJS,
        experimentalDecorators: true,
        emitDecoratorMetadata: true,
        esModuleInterop: true,
      },
    })
    writeFileSync(join(out, file.replace(/\.ts$/, '.js')), outputText)
  }
})

afterEach(async () => {
  child?.kill('SIGKILL')
  await engine?.close()
})

const lines = (): readonly string[] =>
  existsSync(prices) ? readFileSync(prices, 'utf8').trim().split('\n') : []

/** Runs the application until it has written some more prices; then ends it. */
async function runUntil(more: number): Promise<string> {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine as DataEngine
  const process_ = spawn(process.execPath, [join(out, 'main.js')], {
    env: {
      ...process.env,
      ...{ API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint },
      ...{ FEED_ID: feedID, PRICES: prices, CURSORS: cursors, NO_COLOR: '1' },
    },
  })
  child = process_
  let output = ''
  for (const stream of [process_.stdout, process_.stderr])
    stream.on('data', chunk => {
      output += chunk
    })
  const ended = once(process_, 'close')
  const enough = lines().length + more
  await Promise.race([
    until(() => lines().length >= enough),
    ended.then(([code]) => {
      throw new Error(`it ended with ${code}: ${output}`)
    }),
  ])
  process_.kill('SIGTERM')
  const [code, signal] = await ended
  expect({ code, signal, output }).toMatchObject({ code: null, signal: 'SIGTERM' })
  return output
}

test('an application that is ended and started again loses nothing', async () => {
  engine = await startDataEngine({ feeds: [{ feedID, intervalMs: 50 }], history: 0 })
  const output = await runUntil(20)
  expect(output).toContain('the stream is up')
  expect(output).toContain('the stream is closed')
  expect(output).not.toMatch(/ERROR|WARN/)
  const before = lines()
  const saved = JSON.parse(readFileSync(cursors, 'utf8')) as Record<string, number>
  const lastTime = Number(before.at(-1)?.split(' ')[0])
  expect(JSON.stringify(saved)).toContain(`"${feedID}":${lastTime}`)

  const down = (): number => (engine as DataEngine).ledger().length - before.length
  await until(() => down() > 10)
  await runUntil(down() + 20)

  const written = lines()
  const times = written.map(line => Number(line.split(' ')[0])).sort((one, other) => one - other)
  expect(new Set(times).size).toBe(times.length)
  const [first = 0] = times
  const last = times.at(-1) ?? 0
  const expected = engine
    .ledger()
    .filter(each => each.observationsTimestamp >= first && each.observationsTimestamp <= last)
  expect(times).toEqual(expected.map(each => each.observationsTimestamp))
})
