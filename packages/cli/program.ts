import { Command, CommanderError, Help } from 'commander'
import { type Entry, groups } from './commands/index.js'
import { type IO, processIO, warn } from './io.js'
import { inOneLine } from './one-line.js'
import manifest from './package.json' with { type: 'json' }

export { processIO }

const table = Object.assign({}, ...Object.values(groups)) as Readonly<Record<string, Entry>>

/** Makes the program `sluice`. Of the commands, it loads the named one alone. @default all */
export async function createProgram(io: IO, named?: string): Promise<Command> {
  const { stdout, stderr } = io
  const needsAll = named === undefined || table[named]?.needsAll === true
  const program: Command = new Command('sluice')
    .description('Signed data reports from the command line')
    .version(manifest.version)
    .configureOutput({
      writeOut: text => void stdout.write(text),
      writeErr: text => void stderr.write(text),
      outputError: (text, write) => write(`${inOneLine(withHelp(text))}\n`),
      getOutHelpWidth: () => stdout.columns ?? 80,
      getErrHelpWidth: () => stderr.columns ?? 80,
    })
    .configureHelp({
      // A command that is not loaded has no options and arguments to write of.
      subcommandTerm: command =>
        command.parent === program && table[command.name()] !== undefined
          ? `${command.name()} ${table[command.name()]?.usage}`.trimEnd()
          : Help.prototype.subcommandTerm(command),
    })
    .exitOverride()
    .addHelpText('after', overview)
  for (const [heading, entries] of Object.entries(groups)) {
    program.commandsGroup(`${heading}:`)
    for (const [name, { help, load }] of Object.entries(entries)) {
      if (needsAll || name === named) (await load())(program, io)
      else program.command(name)
      program.commands.at(-1)?.description(help)
    }
  }
  return program
}

/** The name of the command in arguments: of `help latest`, too. */
function nameIn(args: readonly string[]): string {
  const [first, second] = args.filter(each => !each.startsWith('-'))
  return (first === 'help' ? second : first) ?? ''
}

/**
 * Runs the command with these arguments, and returns its exit code. Prints an error in one line.
 */
export async function run(args: readonly string[], io: IO): Promise<number> {
  try {
    const program = await createProgram(io, nameIn(args))
    await program.parseAsync(args, { from: 'user' })
    return io.exitCode
  } catch (thrown) {
    // Commander has already printed the error. The error of --help has the code 0.
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : 2
    if (io.signal.aborted) return io.exitCode
    const { exitCodeOf, errorLines } = await import('./errors.js')
    for (const line of errorLines(thrown)) warn(io, line)
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
