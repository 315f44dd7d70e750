import type { Command } from 'commander'
import { addExamples } from '../input/arguments.js'
import { type IO, say } from '../io.js'
import { describeFeed, escapeControls } from '../output/feeds.js'
import { requestLogging } from '../output/log.js'
import { addServiceOptions, connect, findService, type ServiceOptions } from '../service/service.js'

/** Adds `feeds`. */
export function addFeedsCommand(program: Command, io: IO): void {
  const command = addServiceOptions(program.command('feeds'))
    .description('list the feeds that the credentials may read')
    .option('--json', 'print NDJSON')
    .action(async (options: ServiceOptions & { json?: boolean }) => {
      await using client = await connect(findService(options, io), requestLogging(io))
      for (const feed of await client.listFeeds({ signal: io.signal }))
        say(
          io,
          options.json
            ? escapeControls(JSON.stringify(feed))
            : io.stdout.isTTY
              ? describeFeed(feed)
              : feed.feedID,
        )
    })
  addExamples(command, 'sluice feeds --mainnet', 'sluice feeds --json --env-file .env')
}
