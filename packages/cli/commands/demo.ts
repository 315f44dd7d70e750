import { type AddCommand, defineCommand } from '../command.js'
import { say } from '../io.js'
import { findService, serviceOptions } from '../service/service.js'

/** Adds `demo`. */
export const addDemoCommand: AddCommand = defineCommand({
  name: 'demo',
  runsUntilStopped: ({ watch }) => watch === true,
  options: {
    ...serviceOptions,
    watch: { help: 'stream until Ctrl-C' },
    seconds: { is: 'number', help: 'how long to stream', default: 10 },
  },
  examples: ['sluice demo', 'sluice demo --watch'],
  async run(options, io) {
    const { demo } = await import('../demo/demo.js')
    const seconds = options.watch ? Number.POSITIVE_INFINITY : options.seconds
    io.exitCode = await demo({ seconds, service: findService(options, io), io })
    if (io.signal.aborted) return
    say(io)
    const { confidentialDemo } = await import('../demo/confidential-demo.js')
    io.exitCode = io.exitCode || (await confidentialDemo(io))
  },
})
