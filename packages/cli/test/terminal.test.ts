// `stream` on a real terminal, which `script` of util-linux makes.
import { spawn, spawnSync } from 'node:child_process'
import { stripVTControlCharacters } from 'node:util'
import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { command } from '@sluice/test-support/command.js'
import { knownFeeds } from 'sluice'

const { feedID } = knownFeeds.testnet['ETH/USD']
const hasScript = /util-linux/.test(String(spawnSync('script', ['--version']).stdout))

const onTerminal = hasScript ? test.each : test.skip.each
onTerminal([40, 80, 160])(
  'the table of a terminal of %i columns has no line that is cut',
  async columns => {
    await using engine = await startDataEngine({ feeds: [feedID], intervalMs: 1000 })
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const run = `stty cols ${columns} rows 10; exec ${process.execPath} ${command} stream ETH/USD`
    const child = spawn('script', ['-qec', run, '/dev/null'], {
      env: {
        ...{ PATH: process.env.PATH, API_KEY: apiKey, USER_SECRET: userSecret },
        ...{ REST_URL: endpoint, WS_URL: wsEndpoint, TERM: 'xterm' },
      },
    })
    let out = ''
    let isStopped = false
    child.stdout.on('data', chunk => {
      out += chunk
      // Ctrl-C, as a key.
      if (!isStopped && /ETH\/USD +\d+\.\d{4}/.test(stripVTControlCharacters(out))) {
        isStopped = true
        child.stdin.write('\x03')
      }
    })
    const code = await new Promise(resolve => child.on('close', resolve))
    const lines = stripVTControlCharacters(out).split(/\r?\n/)
    const table = lines.findLast(line => /^feed +price/.test(line))
    expect(table).toMatch(
      { 40: /price +bid +age$/, 80: /UTC +reports$/, 160: /UTC +reports$/ }[columns] as RegExp,
    )
    for (const line of lines.filter(each => /^(feed|ETH)/.test(each)))
      expect(line.length).toBeLessThan(columns)
    expect(code).toBe(0)
  },
  30_000,
)
