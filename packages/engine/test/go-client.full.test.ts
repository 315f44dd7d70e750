import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, expect, test } from '@jest/globals'
import { root } from '@sluice/test-support/sources.js'
import { startDataEngine, startReplay } from '../index.js'

const feeds = [`0x0003${'60'.repeat(30)}`, `0x0003${'61'.repeat(30)}`]
const noon = 1_700_049_600
const SECONDS = 30

const folder = mkdtempSync(join(tmpdir(), 'sluice-go-'))
afterAll(() => rmSync(folder, { recursive: true }))
const program = join(folder, 'side')
const { status } = spawnSync('go', ['build', '-o', program], {
  cwd: join(root, 'test/bench/sides/go'),
})
// Where there is no Go, nothing can be built.
const testGo = status === 0 ? test : test.skip

testGo(
  'the official client for Go streams a replay, and decodes each report',
  async () => {
    const engine = await startDataEngine({
      ...{ feeds, intervalMs: 0, history: 0, clock: 'manual' },
      now: () => noon * 1000,
    })
    for (let second = 0; second < SECONDS; second++)
      for (const feedID of feeds) {
        const time = noon + second
        engine.publish(feedID, { validFromTimestamp: time, observationsTimestamp: time })
      }
    const recording = engine.ledger()
    await engine.close()
    await using replay = await startReplay(recording, {
      ...{ speed: 20, paused: true, apiKey: 'key', userSecret: 'secret' },
    })
    const { endpoint, wsEndpoint } = replay
    const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] })
    const answer = new Promise<string>(resolve =>
      createInterface({ input: child.stdout }).once('line', resolve),
    )
    const argument = {
      ...{ endpoint, wsEndpoint, feedIDs: feeds, haMode: false, read: 'decoded' },
      ...{ count: 2 * SECONDS, skip: 1 },
    }
    child.stdin.write(`${JSON.stringify({ id: 1, name: 'measure', argument })}\n`)
    const opened = setInterval(() => replay.connections > 0 && replay.resume(), 20)
    const { error, result } = JSON.parse(await answer)
    clearInterval(opened)
    child.kill()
    expect(error).toBeUndefined()
    expect(result.reports).toBe(2 * SECONDS - 1)
  },
  60_000,
)
