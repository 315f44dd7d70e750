// Runs the tests that need a Postgres or a Kafka, and those that kill processes: npm run test:sinks, or npm run test:sinks -- FILE …
// for some of them. Each server that is there starts once. The tests of a server that is missing are left out.
import { runJest } from '@sluice/test-support/jest/run.mjs'
import { findKafka, noKafka } from './support/kafka-server.mjs'
import { findPostgres, noPostgres } from './support/postgres-server.mjs'

const servers = [
  { name: 'postgres', variable: 'POSTGRES_PROGRAMS', found: findPostgres(), none: noPostgres },
  { name: 'kafka', variable: 'KAFKA_LIBRARIES', found: findKafka(), none: noKafka },
]
const present = servers.filter(({ found }) => found !== undefined)
const absent = servers.filter(({ found }) => found === undefined)
for (const { name, none } of absent) console.log(`test:sinks leaves out ${name}: ${none}`)

const given = process.argv.slice(2)
const names = ['killed', ...present.map(({ name }) => name)]
const own = names.map(name => `packages/sinks/test/${name}.*\\.servers\\.test\\.ts$`)
const files = given.some(each => !each.startsWith('-')) ? given : [...given, ...own]
const places = Object.fromEntries(present.map(({ variable, found }) => [variable, found]))
process.exitCode = await runJest(files, { ...places, TEST_SINKS: '1' })
if (absent.length > 0 && (process.exitCode ?? 0) === 0) process.exitCode = 69
