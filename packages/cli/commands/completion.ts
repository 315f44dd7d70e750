import { Argument, type Command } from 'commander'
import { addExamples } from '../input/arguments.js'
import type { IO } from '../io.js'

const shells = ['bash', 'zsh', 'fish'] as const

/** Adds `completion`. */
export function addCompletionCommand(program: Command, io: IO): void {
  const command = program
    .command('completion')
    .description('print the script that completes commands, options and feeds in a shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(shells))
    .action(async (shell: (typeof shells)[number]) => {
      const { readSpec } = await import('../completion/spec.js')
      io.stdout.write(await scriptOf(shell, readSpec(program)))
    })
  addExamples(
    command,
    'source <(sluice completion bash)',
    'sluice completion zsh > ~/.zfunc/_sluice',
    'sluice completion fish | source',
  )
}

async function scriptOf(
  shell: (typeof shells)[number],
  spec: import('../completion/spec.js').CommandSpec,
): Promise<string> {
  if (shell === 'bash') return (await import('../completion/bash.js')).bashCompletion(spec)
  if (shell === 'zsh') return (await import('../completion/zsh.js')).zshCompletion(spec)
  return (await import('../completion/fish.js')).fishCompletion(spec)
}
