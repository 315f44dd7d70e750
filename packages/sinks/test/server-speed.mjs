// Measures how many reports a second the stores of Postgres and Kafka take: node packages/sinks/test/server-speed.mjs
import { mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { buildSync } from 'esbuild'
import { startKafka } from './support/kafka-server.mjs'
import { startPostgres } from './support/postgres-server.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const root = join(here, '../../..')
// Within the repository, where packages are found.
const folder = join(root, 'node_modules/.cache', `sluice-speed-${process.pid}`)
mkdirSync(folder, { recursive: true })
const outfile = join(folder, 'speed.mjs')
buildSync({
  entryPoints: [join(here, 'support/server-speed.ts')],
  outfile,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  packages: 'external',
  tsconfig: join(root, 'tsconfig.json'),
  logLevel: 'error',
})
try {
  const { measure } = await import(pathToFileURL(outfile).href)
  const postgres = await startPostgres()
  try {
    await measure('postgres over TCP', postgres.url())
    await measure('postgres over a socket', postgres.socketURL())
  } finally {
    await postgres.close()
  }
  const kafka = await startKafka()
  try {
    await measure('kafka', kafka.plain)
  } finally {
    await kafka.close()
  }
} finally {
  rmSync(folder, { recursive: true })
}
