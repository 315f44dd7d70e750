import { expect, test } from '@jest/globals'
import { anyReports, consumers, runChain } from '../support/wire/killed.js'

/** How often a process is killed for each way to acknowledge: CURSOR_KILLS=60 npm run test:full -- test/wire/killed for more. */
const KILLS = Number(process.env.CURSOR_KILLS ?? 6)

test.each(Object.entries(consumers))(
  'of a stream that is killed with SIGKILL from its first report on, nothing is lost: %s',
  async (name, consumer) => {
    const said: string[] = []
    for (let kills = 0, at = 0; kills < KILLS; at++) {
      const lives = Array.from({ length: Math.min(1 + (at % 3), KILLS - kills) }, anyReports)
      kills += lives.length
      const options = at % 2 === 0 ? { saveInterval: 30_000 } : {}
      said.push(...(await runChain({ name: `${name} ${at}`, consumer, options }, lives)))
    }
    expect(said).toEqual([])
  },
  60_000 + KILLS * 30_000,
)
