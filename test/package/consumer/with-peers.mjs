// The plugins for telemetry, with the oldest packages that they are for, in either format.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { startDataEngine } from '@sluice/engine'
import { Registry } from 'prom-client'

const require = createRequire(import.meta.url)
const engine = await startDataEngine({ intervalMs: 50 })
const { endpoint, wsEndpoint, apiKey, userSecret } = engine
for (const load of [name => import(name), async name => require(name)]) {
  const { createClient } = await load('sluice/client')
  const { defaultPreset } = await load('sluice/presets/default')
  const { opentelemetry } = await load('sluice/plugins/opentelemetry')
  const { prometheus } = await load('sluice/plugins/prometheus')
  const register = new Registry()
  const plugins = [
    opentelemetry(),
    prometheus({ register }),
    ...defaultPreset({ apiKey, userSecret }),
  ]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  const stream = client.createStream(engine.feeds[0])
  await stream.read()
  const page = await register.metrics()
  assert.match(page, /^sluice_reports_accepted_total\{sluice_report_source="live"\} [1-9]/m)
  assert.match(page, /^sluice_report_age_seconds_count\{sluice_report_source="live"\} [1-9]/m)
  await client.close()
}
await engine.close()
