import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { read } from '@sluice/test-support/sources.js'
import { tablesOf, tableUnder } from '@sluice/test-support/tables.js'
import { until } from '@sluice/test-support/waiting.js'
import { readSpec } from '../completion.js'
import { createProgram } from '../program.js'
import { runHere, start } from './support/cli.js'

const page = read('docs/reference/command-line.md')
const wordsOf = (text: string): string[] =>
  [...text.matchAll(/`([^`]+)`/g)].map(([, word]) => word as string)

test('the page has every command, and its commands below', async () => {
  const io = { stdout: new PassThrough(), stderr: new PassThrough() }
  const { commands } = readSpec(await createProgram(io as never))
  const rows = tableUnder('The command', page)
  const named = rows.map(row => (row.command ?? '').replaceAll('`', ''))
  const nameOf = (text: string): string => text.split(' ')[1] as string
  expect(named.map(nameOf).sort()).toEqual(commands.map(({ path }) => path).sort())
  const vault = commands.find(({ path }) => path === 'vault')?.commands ?? []
  const row = rows.find(({ command = '' }) => command.includes('vault'))
  expect(wordsOf(row?.[''] ?? '').sort()).toEqual(vault.map(({ path }) => path.slice(6)).sort())
})

test('JSON has the keys that the page names', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-keys-'))
  const feedID = `0x0003${'5a'.repeat(30)}`
  await using engine = await startDataEngine({ feeds: [feedID], intervalMs: 0, history: 0 })
  for (const time of [1, 3, 9])
    engine.publish(feedID, {
      validFromTimestamp: 1_700_000_000 + time - 1,
      observationsTimestamp: 1_700_000_000 + time,
    })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const env = { API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint }
  const signers = join(folder, 'signers.json')
  writeFileSync(signers, JSON.stringify(engine.network))
  const report = engine.ledger()[0]?.fullReport as string
  const from = ['--from', '1700000000']
  const calls: Readonly<Record<string, readonly string[]>> = {
    latest: [feedID],
    page: [feedID, ...from],
    bulk: [feedID, '--at', '1700000003'],
    history: [feedID, ...from],
    verify: [report, '--signers', signers],
    decode: [report],
    gaps: ['--feed', feedID, ...from],
    feeds: [],
  }
  const rows = tablesOf(page).flatMap(({ rows }) => rows.filter(row => 'keys of its JSON' in row))
  for (const [name, args] of Object.entries(calls)) {
    const { out } = await runHere([name, ...args, '--json'], { env })
    const keys = Object.keys(JSON.parse(out.split('\n')[0] as string))
    const row = rows.find(({ command = '' }) => wordsOf(command).includes(name))
    const named = wordsOf(row?.['keys of its JSON'] ?? '')
    expect([name, named]).toEqual([
      name,
      expect.arrayContaining(name === 'decode' ? ['version', 'feedID', 'prices'] : keys),
    ])
    if (name !== 'decode' && name !== 'feeds')
      expect([name, keys]).toEqual([name, expect.arrayContaining(named.slice(0, keys.length))])
  }
  const recording = start(
    ['record', feedID, '--dir', folder, ...from, '--flush', '10', '--compress', 'none'],
    { env },
  )
  await until(() => readdirSync(folder).some(name => name.startsWith('reports-')))
  recording.stop()
  await recording.ended
  const file = readdirSync(folder).find(name => name.startsWith('reports-')) as string
  const [line = ''] = readFileSync(join(folder, file), 'utf8').split('\n')
  const named = wordsOf(rows.at(-1)?.['keys of its JSON'] ?? '')
  expect(named.filter(key => key !== 'originID')).toEqual(Object.keys(JSON.parse(line)))
  rmSync(folder, { recursive: true })
})
