import { checkLogName } from '@sluice/nats'
import type { Command } from 'commander'
import { addExamples } from '../input/arguments.js'
import { type IO, print, say } from '../io.js'
import { count, printable } from '../output/feeds.js'
import { addLogOptions, connectNats, type LogOptions } from '../service/nats.js'

interface DeadLettersOptions extends LogOptions {
  readonly queue: string
  readonly republish?: boolean
  readonly json?: boolean
}

/** Adds `dead-letters`. */
export function addDeadLettersCommand(program: Command, io: IO): void {
  const command = program
    .command('dead-letters')
    .description('list the reports that a queue of workers has given up, or give them to it again')
  addLogOptions(command, 'the servers of NATS, separated by commas', true)
    .requiredOption('--queue <name>', 'the name of the queue', text =>
      checkLogName('--queue', text),
    )
    .option('--republish', 'give them to the workers of the queue again, and remove them here')
    .option('--json', 'print JSON, an object a line, with the message in Base64')
    .action((options: DeadLettersOptions) => run(options, io))
  addExamples(
    command,
    'sluice dead-letters --nats nats://127.0.0.1:4222 --queue pricing',
    'sluice dead-letters --nats nats://127.0.0.1:4222 --queue pricing --republish',
  )
}

async function run(options: DeadLettersOptions, io: IO): Promise<void> {
  const { readDeadLetters, republishDeadLetters } = await import('@sluice/nats')
  const { queue, stream, prefix } = options
  const which = {
    queue,
    ...(stream === undefined ? {} : { stream }),
    ...(prefix === undefined ? {} : { prefix }),
  }
  const connection = await connectNats(options, false)
  try {
    if (options.republish) {
      const published = await republishDeadLetters(connection, which)
      say(io, `${count(published, 'report')} published again to queue ${queue}`)
      return
    }
    let letters = 0
    for await (const { data, ...letter } of readDeadLetters(connection, which)) {
      if (io.signal.aborted) return
      letters++
      const { sequence, feedID, reason, deliveries, time } = letter
      const text = options.json
        ? JSON.stringify({ ...letter, data: Buffer.from(data).toString('base64') })
        : `${sequence}  ${new Date(time).toISOString()}  ${printable(feedID)}  ${printable(reason)}  deliveries ${deliveries}`
      await print(io, `${text}\n`)
    }
    if (!options.json) say(io, `${count(letters, 'dead letter')} of queue ${queue}`)
  } finally {
    await connection.close()
  }
}
