import { createClient } from '../../client/client.js'
import { haDiscovery } from '../../plugins/ha-discovery/index.js'
import { retry } from '../../plugins/retry/index.js'
import { sampleReport } from '../reports.js'
import { SampleService } from '../service.js'
import { sampleOrigins } from './world.js'

const feedID = `0x0003${'a5'.repeat(30)}`

/**
 * Runs a request and a stream in real time, so that the library has loaded the parts that it loads
 * with the first call. A virtual clock can't tell that a module is still loading. Some runtimes
 * take long for it, such as `tsx` on Node 20. The plugin under test is left out, because real
 * timers that it forgets would keep the process alive.
 */
export async function warmUp(): Promise<void> {
  const service = new SampleService((ms, task) => void setTimeout(task, ms), sampleOrigins)
  const { endpoint, wsEndpoint, fetch, connect } = service
  service.store(sampleReport({ feedID, observationsTimestamp: 1_700_000_000 }))
  const plugins = [haDiscovery(), retry()]
  const client = createClient({ endpoint, wsEndpoint, fetch, connect, plugins })
  try {
    await client.getLatestReport(feedID)
    await client.createStream([feedID]).connect()
  } finally {
    await client.close()
  }
}
