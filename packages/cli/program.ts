import { Command } from 'commander'
import { VERSION } from 'sluice/client'
import { addAuditCommands } from './commands/audit.js'
import { addBulkCommand } from './commands/bulk.js'
import { addCompletionCommand } from './commands/completion.js'
import { addDeadLettersCommand } from './commands/dead-letters.js'
import { addDecodeCommand } from './commands/decode.js'
import { addDemoCommand } from './commands/demo.js'
import { addDoctorCommand } from './commands/doctor.js'
import { addEnclaveCommands } from './commands/enclave.js'
import { addFeedsCommand } from './commands/feeds.js'
import { addGapsCommand } from './commands/gaps.js'
import { addHistoryCommand } from './commands/history.js'
import { addLatestCommand } from './commands/latest.js'
import { addMonitorCommand } from './commands/monitor.js'
import { addPageCommand } from './commands/page.js'
import { addRecordCommand } from './commands/record.js'
import { addRelayCommand } from './commands/relay.js'
import { addReplayCommand } from './commands/replay.js'
import { addServeCommand } from './commands/serve.js'
import { addStreamCommand } from './commands/stream.js'
import { addVaultCommands } from './commands/vault.js'
import { addVerifyCommand } from './commands/verify.js'
import { inOneLine } from './errors.js'
import { rejectRepeats } from './input/arguments.js'
import type { IO } from './io.js'

/** What adds a command to the program. A command imports what it needs when it runs, so that the others start faster. */
export type AddCommand = (program: Command, io: IO) => void

/** In the order in which help lists them. */
const commands: readonly AddCommand[] = [
  addDemoCommand,
  addServeCommand,
  addFeedsCommand,
  addLatestCommand,
  addStreamCommand,
  addMonitorCommand,
  addHistoryCommand,
  addPageCommand,
  addBulkCommand,
  addRecordCommand,
  addGapsCommand,
  addReplayCommand,
  addDoctorCommand,
  addDecodeCommand,
  addVerifyCommand,
  addRelayCommand,
  addDeadLettersCommand,
  addVaultCommands,
  addEnclaveCommands,
  addAuditCommands,
  addCompletionCommand,
]

/** Makes the program `sluice` with all its commands. */
export function createProgram(io: IO): Command {
  const { stdout, stderr } = io
  const program = new Command('sluice')
    .description('Signed data reports from the command line')
    .version(VERSION)
    .configureOutput({
      writeOut: text => void stdout.write(text),
      writeErr: text => void stderr.write(text),
      outputError: (text, write) => write(`${inOneLine(text.replace(/^error:/, 'sluice:'))}\n`),
      getOutHelpWidth: () => stdout.columns ?? 80,
      getErrHelpWidth: () => stderr.columns ?? 80,
    })
    .exitOverride()
    .addHelpText('after', overview)
  for (const add of commands) add(program, io)
  rejectRepeats(program)
  return program
}

const overview = `
Credentials come from API_KEY and USER_SECRET (or API_SECRET, STREAMS_API_KEY, STREAMS_API_SECRET), or from the file of
--env-file; REST_URL and WS_URL are the URLs, by default those of the testnet.

Examples:
  $ sluice demo
  $ sluice serve --port 8080 --interval 250
  $ sluice stream ETH/USD BTC/USD --mainnet --ha
  $ sluice latest ETH/USD --json | sluice verify - --signers signers.json
  $ sluice vault put API_KEY --host api.example.com < key.txt

Ends with 0 when all went well, 2 for wrong arguments, 3 when not authorised, 4 for the network, the service or the log, 5 for an invalid
report, 1 for any other error.`
