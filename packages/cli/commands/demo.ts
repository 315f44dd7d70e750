import type { Command } from 'commander'
import { addExamples, number } from '../input/arguments.js'
import { type IO, say } from '../io.js'
import { addServiceOptions, findService, type ServiceOptions } from '../service/service.js'

interface DemoCommandOptions extends ServiceOptions {
  readonly watch?: boolean
  readonly seconds: number
}

/** Adds `demo`. */
export function addDemoCommand(program: Command, io: IO): void {
  const command = addServiceOptions(program.command('demo'))
    .description(
      'stream signed reports from a local data engine, or with credentials from the service; then make a confidential request',
    )
    .option('--watch', 'stream until Ctrl-C')
    .option('--seconds <n>', 'how long to stream', number, 10)
    .action(async (options: DemoCommandOptions) => {
      const { demo } = await import('../demo/demo.js')
      const seconds = options.watch ? Number.POSITIVE_INFINITY : options.seconds
      io.exitCode = await demo({ seconds, service: findService(options, io), io })
      if (io.signal.aborted) return
      say(io)
      const { confidentialDemo } = await import('../demo/confidential-demo.js')
      io.exitCode = io.exitCode || (await confidentialDemo(io))
    })
  addExamples(command, 'sluice demo', 'sluice demo --watch')
}
