import { Command, CommanderError } from 'commander'
import { VERSION } from 'sluice/client'
import { asError } from 'sluice/core'
import type { AddCommand } from './command.js'
import { addAuditCommands } from './commands/audit.js'
import { addCandlesCommand } from './commands/candles.js'
import { addCertifyCommand } from './commands/certify.js'
import { addCompletionCommand } from './commands/completion.js'
import { addContextCommands } from './commands/context.js'
import { addDeadLettersCommand } from './commands/dead-letters.js'
import { addDecodeCommand } from './commands/decode.js'
import { addDemoCommand } from './commands/demo.js'
import { addDoctorCommand } from './commands/doctor.js'
import { addEnclaveCommand, addKeygenCommand } from './commands/enclave.js'
import { addReplayCommand, addServeCommand } from './commands/engine.js'
import { addFeedsCommand } from './commands/feeds.js'
import { addGapsCommand } from './commands/gaps.js'
import { addHistoryCommand } from './commands/history.js'
import { addMonitorCommand } from './commands/monitor.js'
import { addCheckCommand, addProveCommand } from './commands/prove.js'
import { addRecordCommand } from './commands/record.js'
import { addRelayCommand } from './commands/relay.js'
import { addBulkCommand, addLatestCommand, addPageCommand } from './commands/requests.js'
import { addSinkCommand } from './commands/sink.js'
import { addStreamCommand } from './commands/stream.js'
import { addVaultCommands } from './commands/vault.js'
import { addVerifyCommand } from './commands/verify.js'
import { adviceOn, exitCodeOf, inOneLine, listenProblem } from './errors.js'
import { type IO, warn } from './io.js'

/** The commands, in the order in which the help lists them, by what a person wants to do. */
const groups: Readonly<Record<string, readonly AddCommand[]>> = {
  'Begin, and find what is wrong': [
    addDemoCommand,
    addContextCommands,
    addDoctorCommand,
    addCertifyCommand,
    addCompletionCommand,
  ],
  'Fetch reports': [
    addFeedsCommand,
    addLatestCommand,
    addPageCommand,
    addBulkCommand,
    addHistoryCommand,
  ],
  'Stream reports': [addStreamCommand, addMonitorCommand, addCandlesCommand],
  'Record reports, and publish them again': [
    addRecordCommand,
    addGapsCommand,
    addReplayCommand,
    addServeCommand,
  ],
  'Store reports': [addSinkCommand],
  'Read reports': [addDecodeCommand, addVerifyCommand],
  'Prove a price': [addProveCommand, addCheckCommand],
  'Run a relay': [addRelayCommand, addDeadLettersCommand],
  'Keep secrets, and use them in an enclave': [
    addVaultCommands,
    addKeygenCommand,
    addEnclaveCommand,
    addAuditCommands,
  ],
}

/** Makes the program `sluice` with all its commands. */
export function createProgram(io: IO): Command {
  const { stdout, stderr } = io
  const program = new Command('sluice')
    .description('Signed data reports from the command line')
    .version(VERSION)
    .configureOutput({
      writeOut: text => void stdout.write(text),
      writeErr: text => void stderr.write(text),
      outputError: (text, write) => write(`${inOneLine(withHelp(text))}\n`),
      getOutHelpWidth: () => stdout.columns ?? 80,
      getErrHelpWidth: () => stderr.columns ?? 80,
    })
    .exitOverride()
    .addHelpText('after', overview)
  for (const [heading, commands] of Object.entries(groups)) {
    program.commandsGroup(`${heading}:`)
    for (const add of commands) add(program, io)
  }
  return program
}

/**
 * Runs the command with these arguments, and returns its exit code. Prints an error in one line.
 */
export async function run(args: readonly string[], io: IO): Promise<number> {
  try {
    await createProgram(io).parseAsync(args, { from: 'user' })
    return io.exitCode
  } catch (thrown) {
    // Commander has already printed the error. The error of --help has the code 0.
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : 2
    if (io.signal.aborted) return io.exitCode
    warn(io, inOneLine(listenProblem(thrown) ?? asError(thrown).message))
    const advice = adviceOn(thrown)
    if (advice !== undefined) warn(io, advice)
    return exitCodeOf(thrown)
  }
}

/** The error of commander as that of this program. An unknown name gets what lists the names. */
function withHelp(text: string): string {
  const error = text.trim().replace(/^error:/, 'sluice:')
  const isUnknown = /: unknown (option|command) /.test(error) && !error.includes('Did you mean')
  return isUnknown ? `${error}: --help lists all` : error
}

const overview = `
Credentials come from API_KEY and USER_SECRET (or API_SECRET, STREAMS_API_KEY, STREAMS_API_SECRET), or from the file of
--env-file; REST_URL and WS_URL are the URLs, by default those of the testnet. A context keeps these settings under a name.

Examples:
  $ sluice demo
  $ sluice serve --port 8080 --interval 250
  $ sluice stream ETH/USD BTC/USD --mainnet --ha
  $ sluice latest ETH/USD --json | sluice verify - --signers signers.json
  $ sluice vault put API_KEY --host api.example.com < key.txt

Ends with 0 when all went well, 2 for wrong arguments, 3 when not authorised, 4 for the network, the service or the log, 5 for an invalid
report or unreadable input, 6 where certify finds a deviation, 130 or 143 when stopped before it was done, 1 for any other error.`
