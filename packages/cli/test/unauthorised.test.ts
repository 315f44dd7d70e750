import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { knownFeeds } from 'sluice'
import { runHere } from './support/cli.js'

const { feedID } = knownFeeds.testnet['ETH/USD']
/** A feed that the service does not have. */
const other = `0x0003${'5a'.repeat(30)}`
const folder = mkdtempSync(join(tmpdir(), 'sluice-unauthorised-'))
afterAll(() => rmSync(folder, { recursive: true }))

const commands: readonly string[] = [
  'feeds',
  `latest ${feedID}`,
  `page ${feedID} --from 1h`,
  `bulk ${feedID}`,
  `history ${feedID} --from 1h`,
  `gaps --feed ${feedID} --from 1h`,
  `stream ${feedID}`,
  `stream ${feedID} -q`,
  'stream ETH/USD',
  `record ${feedID} --dir ${join(folder, 'recording')}`,
]

test.each(commands)(
  'sluice %s says in a line why a 401 may be, and points to the doctor',
  async args => {
    await using engine = await startDataEngine({ feeds: [feedID] })
    const { code, err } = await runHere(args.split(' '), {
      env: {
        API_KEY: engine.apiKey,
        USER_SECRET: 'another',
        REST_URL: engine.endpoint,
        WS_URL: engine.wsEndpoint,
      },
    })
    expect(code).toBe(3)
    expect(
      err.match(
        /^sluice: the key, the secret or this machine’s clock may be wrong.*: sluice doctor says which$/gm,
      ),
    ).toHaveLength(1)
  },
)

test.each(commands.slice(0, 8))('sluice %s says in a line why a 403 may be', async args => {
  const server = createServer((_request, response) => void response.writeHead(403).end())
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const { code, err } = await runHere(args.split(' '), {
    env: {
      API_KEY: 'a-key',
      USER_SECRET: 'a-secret',
      REST_URL: `http://127.0.0.1:${port}`,
      WS_URL: `ws://127.0.0.1:${port}`,
    },
  })
  server.closeAllConnections()
  server.close()
  expect(code).toBe(3)
  expect(
    err.match(
      /^sluice: the key or this machine’s address may be blocked, .*: sluice doctor says more$/gm,
    ),
  ).toHaveLength(1)
})

test.each([
  [
    `latest ${other}`,
    'or the feed may not be one that sluice feeds lists: sluice doctor says which',
  ],
  [`stream ${other}`, 'sluice feeds lists the feeds that the key may read, and sluice doctor says'],
])('sluice %s says which command lists the feeds', async (args, advice) => {
  await using engine = await startDataEngine({ feeds: [feedID] })
  const { code, err } = await runHere(args.split(' '), {
    env: {
      API_KEY: engine.apiKey,
      USER_SECRET: engine.userSecret,
      REST_URL: engine.endpoint,
      WS_URL: engine.wsEndpoint,
    },
  })
  expect([code, err]).toEqual([3, expect.stringContaining(advice)])
})
