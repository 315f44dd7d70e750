import type { Command } from 'commander'
import { type AddCommand, defineCommand } from '../command.js'
import { readSpec, scripts } from '../completion.js'

/** Adds `completion`. */
export const addCompletionCommand: AddCommand = (program: Command, io) =>
  defineCommand({
    name: 'completion',
    arguments: { '<shell>': { help: 'the shell', choices: ['bash', 'zsh', 'fish'] } },
    examples: [
      'source <(sluice completion bash)',
      'sluice completion zsh > ~/.zfunc/_sluice',
      'sluice completion fish | source',
    ],
    run: (_options, _io, { shell }) => io.stdout.write(scripts[shell](readSpec(program))),
  })(program, io)
