import { type AddCommand, defineCommand, given } from '../command.js'
import { print, printable, say } from '../io.js'
import { count } from '../output/feeds.js'
import { connectNats, logOptions } from '../service/nats.js'

/** Adds `dead-letters`. */
export const addDeadLettersCommand: AddCommand = defineCommand({
  name: 'dead-letters',
  options: {
    ...logOptions,
    queue: { is: 'logName', help: 'the name of the queue', required: true },
    republish: { help: 'give them to the workers of the queue again, and remove them here' },
    json: { help: 'print JSON, an object a line, with the message in Base64' },
  },
  examples: [
    'sluice dead-letters --nats nats://127.0.0.1:4222 --queue pricing',
    'sluice dead-letters --nats nats://127.0.0.1:4222 --queue pricing --republish',
  ],
  async run(options, io) {
    const { readDeadLetters, republishDeadLetters } = await import('@sluice/nats')
    const { queue, stream, prefix } = options
    const which = { queue, ...given({ stream, prefix }) }
    const connection = await connectNats(options, io, false)
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
  },
})
