// What the relay and the workers cost beside the bare library, in processor time, in turns; and how fast a worker catches up.
//
//   node packages/nats/test/speed.mjs [publish|consume|catch-up …]
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startNats } from '@sluice/test-support/nats/server.mjs'

const wanted = process.argv.slice(2)
const ROUNDS = 3
const median = values => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]

/** Runs one side in a process of its own: what it writes last is its figures. */
async function measure(side, setting) {
  const path = fileURLToPath(new URL('./programs/side.mjs', import.meta.url))
  const child = spawn(process.execPath, [path, JSON.stringify({ ...setting, side })], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', data => {
    output += data
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${side} ended with ${code}`)
  return JSON.parse(output.trim().split('\n').at(-1))
}

async function compare(sides, setting) {
  const figures = new Map(sides.map(side => [side, []]))
  for (let round = 0; round < ROUNDS; round++)
    for (const side of sides) {
      const { perSecond } = await measure(side, { ...setting, round })
      figures.get(side).push(perSecond)
    }
  const first = figures.get(sides[0])
  console.table(
    sides.map(side => ({
      side,
      'reports per CPU second': Math.round(median(figures.get(side))),
      [`of ${sides[0]}`]: median(figures.get(side).map((each, at) => each / first[at])).toFixed(2),
    })),
  )
}

function bytesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
    const path = join(folder, entry.name)
    return sum + (entry.isDirectory() ? bytesBelow(path) : statSync(path).size)
  }, 0)
}

const runs = {
  publish: nats => compare(['bare publish', 'relay publish'], { ...nats, count: 20_000 }),
  async consume(nats) {
    await measure('create', nats)
    await compare(['bare consume', 'bare consume and JSON.parse', 'worker'], {
      ...nats,
      count: 60_000,
    })
  },
  async 'catch-up'(nats) {
    const hour = { ...nats, feeds: 200, count: 360_000 }
    const { begin } = await measure('fill hour', hour)
    console.log(`360 000 reports take ${Math.round(bytesBelow(nats.folder) / 2 ** 20)} MB of disk`)
    const { reports, seconds, cpu, pages } = await measure('catch up', { ...hour, begin })
    console.log(
      `caught up with ${reports} reports in ${seconds.toFixed(1)} s (${cpu.toFixed(1)} s of processor): ${Math.round(reports / seconds)} per second, ${(reports / seconds / 100).toFixed(0)} times as fast as live; ${pages} pages were asked for, of the log, and the service is not there`,
    )
  },
}

for (const name of wanted.length > 0 ? wanted : Object.keys(runs)) {
  const nats = await startNats()
  console.log(`\n${name}`)
  await runs[name]({ servers: nats.servers, folder: nats.folder })
  await nats.close()
}
