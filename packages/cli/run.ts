import { CommanderError } from 'commander'
import { asError } from 'sluice/core'
import { exitCodeOf, inOneLine } from './errors.js'
import { type IO, warn } from './io.js'
import { createProgram } from './program.js'

/** Runs the command with these arguments, and returns its exit code. Prints an error in one line. */
export async function run(args: readonly string[], io: IO): Promise<number> {
  try {
    await createProgram(io).parseAsync(args, { from: 'user' })
    return io.exitCode
  } catch (thrown) {
    // It has been printed. That of --help has the code 0.
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : 2
    if (io.signal.aborted) return io.exitCode
    warn(io, inOneLine(asError(thrown).message))
    return exitCodeOf(thrown)
  }
}
