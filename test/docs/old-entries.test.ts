import { expect, test } from '@jest/globals'
import { manifestOf, packages } from '../support/sources.js'
import { tablesUnder } from './pages.js'

/** Every entry that the library had when it was one package. */
const oldEntries: readonly string[] = `
  . ./confidential-http ./client ./core ./gateway ./local ./nats ./package.json ./report ./stores ./tdh2
  ./plugins/bearer-auth ./plugins/continuity ./plugins/dedup ./plugins/feed-access ./plugins/ha-discovery
  ./plugins/hmac-auth ./plugins/logging ./plugins/opentelemetry ./plugins/prometheus ./plugins/rate-limit
  ./plugins/retry ./plugins/telemetry ./plugins/verify ./plugins/verify/onchain
  ./plugins/confidential-http/audit ./plugins/confidential-http/limits ./plugins/confidential-http/network-policy
  ./plugins/confidential-http/response-encryption ./plugins/confidential-http/root-certificates
  ./plugins/confidential-http/secrets ./plugins/confidential-http/templates
  ./plugins/confidential-http/upstream-failures
  ./plugins/decoders ./plugins/decoders/statuses ./plugins/decoders/v2 ./plugins/decoders/v3 ./plugins/decoders/v4
  ./plugins/decoders/v5 ./plugins/decoders/v6 ./plugins/decoders/v7 ./plugins/decoders/v8 ./plugins/decoders/v9
  ./plugins/decoders/v10 ./plugins/decoders/v11 ./plugins/decoders/v12 ./plugins/decoders/v13 ./plugins/decoders/v14
  ./presets/confidential ./presets/default ./presets/feeds ./presets/ha ./presets/versions`
  .trim()
  .split(/\s+/)
  .map(entry => `sluice${entry.slice(1)}`)

/** Every entry of the library and of its packages, such as `@sluice/nats/gateway`. */
const entries: readonly string[] = ['.', ...packages].flatMap(folder => {
  const { name, exports } = manifestOf(folder)
  return Object.keys(exports).map(entry => name + entry.slice(1))
})

const namesIn = (cell = ''): string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name as string)

/** True for an old entry that a name of the table stands for: `vN` is any version, `*` any plugin. */
function standsFor(name: string, entry: string): boolean {
  const pattern = name.replace('*', '[\\w-]+').replace('vN', 'v\\d+')
  return new RegExp(`^${pattern}$`).test(entry)
}

const [rows = []] = tablesUnder('docs/reference/migration.md', 'From the old entries')

test.each(oldEntries)('%s has a successor', entry => {
  const successors = rows
    .filter(row => namesIn(row['old entry']).some(name => standsFor(name, entry)))
    .flatMap(row => (row['new entry'] === 'the same' ? [entry] : namesIn(row['new entry'])))
  expect(successors).not.toEqual([])
  for (const successor of successors) expect(entries).toContain(successor)
})

test('the list is whole, and the table has no other entry', () => {
  expect(new Set(oldEntries).size).toBe(53)
  const others = rows
    .flatMap(row => namesIn(row['old entry']))
    .filter(name => !oldEntries.some(entry => standsFor(name, entry)))
  expect(others).toEqual([])
})
