import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { localCredentials, startDataEngine } from '@sluice/engine'
import { Help } from 'commander'
import { groups } from '../commands/index.js'
import { allOf, type CommandSpec, readSpec } from '../completion.js'
import { createProgram } from '../program.js'
import { runHere, start } from './support/cli.js'

const io = {
  stdin: new PassThrough(),
  stdout: new PassThrough(),
  stderr: new PassThrough(),
  env: {},
  signal: new AbortController().signal,
  exitCode: 0,
}
let program: CommandSpec
let leaves: readonly CommandSpec[]
beforeAll(async () => {
  program = readSpec(await createProgram(io))
  leaves = allOf(program).filter(({ commands }) => commands.length === 0)
})

test('every command has examples that are right', async () => {
  expect(leaves.length).toBeGreaterThan(35)
  for (const spec of leaves) {
    const { out, code } = await runHere([...spec.path.split(' '), '--help'])
    expect([spec.path, code]).toEqual([spec.path, 0])
    const [, examples = ''] = out.split('\nExamples:\n')
    const calls = [...examples.matchAll(/sluice ([^|<>)\n]*)/g)].map(([, words = '']) =>
      words.trim(),
    )
    expect([spec.path, calls.some(call => call.startsWith(spec.path))]).toEqual([spec.path, true])
    for (const call of calls) {
      const of = leaves.find(each => call.startsWith(each.path))
      expect([call, of]).toEqual([call, expect.anything()])
      const options = [program, of ?? spec].flatMap(each => each.options.map(({ long }) => long))
      for (const word of call.split(' ').filter(each => each.startsWith('--')))
        expect([call, options]).toEqual([call, expect.arrayContaining([word])])
    }
  }
})

test('the table of commands has the name and the usage of each', async () => {
  const loaded = await createProgram(io)
  const plain = new Help()
  for (const entries of Object.values(groups))
    for (const [name, { usage, help }] of Object.entries(entries)) {
      const command = loaded.commands.find(each => each.name() === name)
      expect([name, command && plain.subcommandTerm(command)]).toEqual([
        name,
        `${name} ${usage}`.trimEnd(),
      ])
      expect([name, command?.description()]).toEqual([name, help])
    }
  expect(loaded.commands).toHaveLength(Object.values(groups).flatMap(Object.keys).length)
})

const folder = mkdtempSync(join(tmpdir(), 'sluice-program-'))
afterAll(() => rmSync(folder, { recursive: true }))

describe('a wrong option, file or id', () => {
  const id = `0x0003${'5a'.repeat(30)}`
  test.each([
    [['latest'], "missing required argument 'feed'"],
    [['latest', id, id], 'too many arguments'],
    [['history', id], "required option '--from <time>' not specified"],
    [['page', id, '--from', 'yesterday'], "'yesterday' is invalid"],
    [['bulk', id, '--at', '2027-13-01'], "'2027-13-01' is invalid"],
    [['decode', 'none.json'], 'the report can’t be read from none.json: ENOENT'],
    [['decode', '/'], 'the report can’t be read from /: EISDIR'],
    [['serve', '--port', '70000'], "'70000' is invalid. must be a whole number from 0 to 65535"],
    [['serve', '--replay', 'none.ndjson'], '--replay can’t be read from none.ndjson: ENOENT'],
    [
      ['serve', '--port', '0', '--signers-out', '/none/s.json'],
      '--signers-out can’t be written to /none/s.json: ENOENT',
    ],
    [['serve', '--port', '0', '--feeds', '0x12'], 'feed'],
    [['replay', 'none.ndjson'], 'the report can’t be read from none.ndjson: ENOENT'],
    [['replay', 'x', '--speed', '0'], "'0' is invalid. must be a number above 0, or max"],
    [['record', id], "required option '--dir <dir>' not specified"],
    [
      ['record', id, '--dir', 'x', '--compress', 'rar'],
      "'rar' is invalid. Allowed choices are gzip, zstd, none.",
    ],
    [['record', id, '--dir', 'x', '--rotate-every', '0s'], "'0s' is invalid"],
    [
      ['completion', 'tcsh'],
      "'tcsh' is invalid for argument 'shell'. Allowed choices are bash, zsh, fish.",
    ],
    [['latest', id, '--env-file', 'none.env'], '--env-file can’t be read from none.env: ENOENT'],
    [
      ['latest', id, '--mainnet', '--testnet'],
      "option '--mainnet' cannot be used with option '--testnet'",
    ],
    [
      ['latest', id, '--mainnet', '--endpoint', 'http://x'],
      "option '--mainnet' cannot be used with option '--endpoint <url>'",
    ],
    [['latest', id, '--endpoint', 'x'], 'endpoint must be a URL'],
    [['feeds'], 'API_KEY and USER_SECRET must be set'],
    [['strem'], "unknown command 'strem' (Did you mean stream?)"],
  ])('%j ends with 2 and one line that names it', async (args, message) => {
    const env = args[0] === 'feeds' ? {} : { API_KEY: 'a', USER_SECRET: 'b' }
    const { out, err, code } = await runHere(args, { env })
    expect(err).toContain(message)
    expect(err).toMatch(/^sluice: [^\n]*\n$/)
    expect([out, code]).toEqual(['', 2])
  })
})

describe('which service is asked', () => {
  test('a key of a local engine does not go to the public service', async () => {
    const env = { API_KEY: localCredentials.apiKey, USER_SECRET: localCredentials.userSecret }
    for (const more of [[], ['--mainnet']]) {
      const { code, err } = await runHere(['feeds', ...more], { env })
      expect(code).toBe(2)
      expect(err).toMatch(
        /^sluice: API_KEY is that of a local data engine, and https:.* is the public service: set REST_URL .*\n$/,
      )
    }
  })

  test('serve --env-out writes what --env-file takes', async () => {
    const file = join(folder, 'engine.env')
    const serving = start(['serve', '--port', '0', '--env-out', file])
    await serving.shows(/signed by/)
    expect(serving.output.out).toBe('')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const { code, out } = await runHere(['feeds', '--env-file', file])
    expect([code, out.split('\n').length]).toEqual([0, 20])
    serving.stop()
    expect((await serving.ended).code).toBe(0)
  })

  const onPosix = process.platform === 'win32' ? test.skip : test
  onPosix(
    'a file with a secret that others may read or change is told, and used nevertheless',
    async () => {
      const feedID = `0x0003${'5a'.repeat(30)}`
      await using engine = await startDataEngine({ feeds: [feedID] })
      const [file, key] = [join(folder, 'told.env'), join(folder, 'told.pem')]
      writeFileSync(
        file,
        `API_KEY=${engine.apiKey}\nUSER_SECRET=${engine.userSecret}\nREST_URL=${engine.endpoint}\n`,
      )
      writeFileSync(key, '-----BEGIN PRIVATE KEY-----\n')
      const said = (what: string, path: string) =>
        `sluice: ${what}: other users may read or change ${path}, which has a secret: chmod 600 it\n`
      for (const [mode, isTold] of [
        ...([0o644, 0o640, 0o604, 0o620, 0o666] as const).map(each => [each, true] as const),
        ...([0o600, 0o400, 0o700] as const).map(each => [each, false] as const),
      ]) {
        for (const path of [file, key]) chmodSync(path, mode)
        expect(await runHere(['feeds', '--env-file', file])).toMatchObject({
          ...{ code: 0, out: `${feedID}\n` },
          err: isTold ? said('--env-file', file) : '',
        })
        const { err } = await runHere(['feeds', '--env-file', file, '--key', key, '--cert', key])
        expect(err.includes(said('--key', key))).toBe(isTold)
        expect(err).not.toContain('--cert: other')
      }
    },
  )

  test('options take precedence over the environment, and the environment over a file, which is read only if asked', async () => {
    const feedID = `0x0003${'5a'.repeat(30)}`
    await using engine = await startDataEngine({ feeds: [feedID] })
    const file = join(folder, '.env')
    writeFileSync(
      file,
      `API_KEY="${engine.apiKey}" # a comment\nexport USER_SECRET='${engine.userSecret}'\nREST_URL=http://127.0.0.1:1\n`,
    )
    const away = { REST_URL: 'http://127.0.0.1:1' }
    const options = ['--env-file', file]
    const given = await Promise.all([
      runHere(['feeds', ...options], { env: { REST_URL: engine.endpoint } }),
      runHere(['feeds', ...options, '--endpoint', engine.endpoint], { env: away }),
      runHere(['feeds'], { env: { REST_URL: engine.endpoint } }),
    ])
    expect(given.map(({ code, out }) => [code, out])).toEqual([
      [0, `${feedID}\n`],
      [0, `${feedID}\n`],
      [2, ''],
    ])
  })
})

describe('the help', () => {
  const headings = (text: string): readonly string[] =>
    [...text.matchAll(/^(\S.*):$/gm)].map(([, heading = '']) => heading)

  test('has commands by what they are for, each once', async () => {
    const { out } = await runHere(['--help'])
    expect(headings(out)).toEqual([
      'Options',
      'Begin, and find what is wrong',
      'Fetch reports',
      'Stream reports',
      'Record reports, and publish them again',
      'Store reports',
      'Read reports',
      'Prove a price',
      'Run a relay',
      'Keep secrets, and use them in an enclave',
      'Commands',
      'Examples',
    ])
    for (const { path } of program.commands)
      expect([path, out.match(new RegExp(`^  ${path} `, 'gm'))]).toEqual([path, [`  ${path} `]])
  })

  test('of a command has its own options first, then those it shares with others', async () => {
    const { out } = await runHere(['record', '--help'])
    expect(headings(out)).toEqual([
      'Arguments',
      'Options',
      'The stream',
      'Metrics',
      'Verification',
      'The service',
      'Examples',
    ])
    expect(out).toMatch(/^Options:\n {2}--dir <dir> /m)
    expect(out).toMatch(/^The service:\n {2}--mainnet /m)
    expect(out).toMatch(/^The stream:\n {2}--ha (.*\n)* {2}--max-reconnects <n> (.*\n)*Metrics:/m)
  })
})
