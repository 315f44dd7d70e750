import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { type DataEngine, localCredentials, startDataEngine } from '@sluice/engine'
import { knownFeeds } from 'sluice'
import { runHere } from './support/cli.js'

const feedID = knownFeeds.testnet['ETH/USD'].feedID

let engine: DataEngine
let other: DataEngine
beforeAll(async () => {
  engine = await startDataEngine({ feeds: [feedID] })
  other = await startDataEngine({ feeds: [`0x0003${'5a'.repeat(30)}`], userSecret: 'another' })
})
afterAll(() => Promise.all([engine.close(), other.close()]))

let folder: string
let envFile: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-contexts-'))
  envFile = join(folder, 'engine.env')
  writeFileSync(envFile, settings(engine), { mode: 0o600 })
})
afterEach(() => rmSync(folder, { recursive: true }))

const settings = ({ endpoint, wsEndpoint, apiKey, userSecret }: DataEngine): string =>
  `REST_URL=${endpoint}\nWS_URL=${wsEndpoint}\nAPI_KEY=${apiKey}\nUSER_SECRET=${userSecret}\n`
const run = (args: string, env: Record<string, string> = {}) =>
  runHere(args.split(' '), { env: { HOME: folder, ...env } })
const stored = (): string => join(folder, '.config', 'sluice', 'contexts.json')

test('a context is added, used, shown and removed, in a file that only its owner reads', async () => {
  const added = await run(`context add local --env-file ${envFile}`)
  expect(added).toMatchObject({ code: 0, out: '' })
  expect(statSync(stored()).mode & 0o777).toBe(0o600)
  expect(statSync(join(folder, '.config', 'sluice')).mode & 0o777).toBe(0o700)
  expect((await run('feeds')).code).toBe(2)
  expect((await run('feeds --context local')).out).toBe(`${feedID}\n`)
  expect((await run('feeds', { SLUICE_CONTEXT: 'local' })).out).toBe(`${feedID}\n`)
  expect((await run('context use local')).code).toBe(0)
  expect((await run('feeds')).out).toBe(`${feedID}\n`)
  await run('context add prod --mainnet')
  expect((await run('context list')).out).toBe(
    `* local  --env-file ${envFile}\n  prod   --mainnet\n`,
  )
  expect((await run('context show')).out).toBe(
    `context local, of ${stored()}\n  --env-file ${envFile}\n`,
  )
  expect((await run('context rm local')).code).toBe(0)
  expect((await run('context list')).out).toBe('  prod  --mainnet\n')
  expect((await run('feeds')).code).toBe(2)
  // Secrets stay where they are.
  expect(readFileSync(stored(), 'utf8')).not.toContain(engine.userSecret)
})

test('finds the contexts of XDG_CONFIG_HOME, from every folder', async () => {
  const env = { XDG_CONFIG_HOME: join(folder, 'xdg') }
  const home = process.cwd()
  process.chdir(folder)
  await runHere(['context', 'add', 'local', '--env-file', 'engine.env'], { env })
  process.chdir(home)
  const { out, code } = await runHere(['feeds', '--context', 'local'], { env })
  expect([out, code]).toEqual([`${feedID}\n`, 0])
})

test('an option comes before the environment, and the environment before the context', async () => {
  await run(`context add local --env-file ${envFile}`)
  await run('context use local')
  const second = join(folder, 'other.env')
  writeFileSync(second, settings(other))
  const [otherID] = other.feeds
  expect((await run(`feeds --env-file ${second}`)).out).toBe(`${otherID}\n`)
  const env = { API_KEY: other.apiKey, USER_SECRET: other.userSecret, REST_URL: other.endpoint }
  expect((await run('feeds', env)).out).toBe(`${otherID}\n`)
  const { apiKey: API_KEY, userSecret: USER_SECRET } = engine
  const away = { API_KEY, USER_SECRET, REST_URL: 'http://127.0.0.1:1' }
  expect((await run(`feeds --endpoint ${engine.endpoint}`, away)).out).toBe(`${feedID}\n`)
  // A key of the environment does not go with a secret of the context.
  const half = await run('feeds', { API_KEY: other.apiKey })
  expect(half.code).toBe(2)
  expect(half.err).toMatch(/^sluice: API_KEY and USER_SECRET must be set in the environment/)
})

test('a key of a local engine stays refused at the public service', async () => {
  const { apiKey, userSecret } = localCredentials
  const keys = join(folder, 'keys.env')
  writeFileSync(keys, `API_KEY=${apiKey}\nUSER_SECRET=${userSecret}\n`, { mode: 0o600 })
  await run(`context add wrong --mainnet --env-file ${keys}`)
  await run(`context add default --env-file ${keys}`)
  await run(
    `context add mixed --env-file ${keys} --endpoint http://127.0.0.1:1 --ws-endpoint wss://ws.dataengine.chain.link`,
  )
  for (const name of ['wrong', 'default', 'mixed']) {
    const { err, code } = await run(`feeds --context ${name}`)
    expect([name, err, code]).toEqual([
      name,
      expect.stringMatching(/^sluice: API_KEY is that of a local data engine, and (https|wss):/),
      2,
    ])
  }
  await run(`context add local --env-file ${envFile}`)
  expect((await run('feeds --context local --mainnet')).code).toBe(2)
})

test.each([
  ['context add', "missing required argument 'name'"],
  ['context add x', '--mainnet, --testnet, --endpoint or --env-file must be given'],
  ['context add ../x --mainnet', 'the name of a context must have letters, digits'],
  ['context add x --mainnet --testnet', "'--mainnet' cannot be used with option '--testnet'"],
  ['context add x --endpoint https://a', '--endpoint and --ws-endpoint must be given together'],
  ['context add x --endpoint ftp://a --ws-endpoint ws://a', '--endpoint must begin with http://'],
  [
    'context add x --endpoint https://u:p@a --ws-endpoint ws://a',
    '--endpoint must not hold a user name or password',
  ],
  ['context add x --mainnet --proxy http://u:p@a', '--proxy must have no password'],
  ['context add prod --testnet', 'context prod exists: sluice context rm prod removes it'],
  ['context use prd', 'context "prd" is unknown; did you mean \'prod\'?'],
  ['context rm none', 'context "none" is unknown; there is prod'],
  ['context show', 'no context is in use: sluice context use NAME, or give a name'],
  ['feeds --context prd', '--context "prd" is unknown; did you mean \'prod\'?'],
])('sluice %s ends with 2 and says what to do', async (args, message) => {
  await run('context add prod --mainnet')
  const { out, err, code } = await run(args)
  expect([out, code]).toEqual(['', 2])
  expect(err).toMatch(/^sluice: [^\n]*\n$/)
  expect(err).toContain(message)
})

test.each([
  ['not JSON', '{', 'must be JSON'],
  ['a list', '[]', 'must hold contexts: remove it, and add them again'],
  ['an unknown setting', '{"contexts":{"x":{"userSecret":"s"}}}', 'must hold contexts'],
  ['a setting of another type', '{"contexts":{"x":{"mainnet":"yes"}}}', 'must hold contexts'],
])('a file of contexts that is %s is named', async (_what, text, message) => {
  mkdirSync(join(folder, '.config', 'sluice'), { recursive: true })
  writeFileSync(stored(), text)
  const { err, code } = await run('feeds')
  expect([err.includes(stored()), err.includes(message), code]).toEqual([true, true, 2])
})

test('doctor says which context is in use', async () => {
  await run(`context add local --env-file ${envFile}`)
  const { out, code } = await run('doctor --context local --seconds 0.2')
  expect(out).toContain(`ok           context      local, of ${stored()}\n`)
  expect(code).toBe(0)
  const without = await run(`doctor --env-file ${envFile} --seconds 0.2`)
  expect(without.out).not.toContain('context')
})
