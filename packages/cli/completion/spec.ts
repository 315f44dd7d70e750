import type { Command, Help } from 'commander'
import { knownFeeds } from 'sluice'

/** What stands where a value is expected. */
export type ValueKind = 'file' | 'other' | Words
/** The words of which it is one. */
export type Words = readonly string[]

/** An option of a command. */
export interface OptionSpec {
  /** With its dashes: `--json`. */
  readonly long: string
  readonly description: string
  /** Undefined where it takes no value. */
  readonly value: ValueKind | undefined
  readonly isRepeatable: boolean
}

/** A command as the completion of a shell knows it. */
export interface CommandSpec {
  /** `vault put`; empty for the program. */
  readonly path: string
  readonly description: string
  readonly options: readonly OptionSpec[]
  readonly arguments: readonly ValueKind[]
  /** True where the last argument may be given more than once. */
  readonly isVariadic: boolean
  readonly commands: readonly CommandSpec[]
}

/** The names of feeds that are offered. */
const feedNames: readonly string[] = [
  ...new Set(Object.values(knownFeeds).flatMap(feeds => Object.keys(feeds))),
]

/** Reads a command of commander's, and those below it. */
export function readSpec(command: Command, parents: readonly string[] = []): CommandSpec {
  const help: Help = command.createHelp()
  const path = parents.length === 0 && command.parent === null ? [] : [...parents, command.name()]
  return {
    path: path.join(' '),
    description: command.description(),
    options: help.visibleOptions(command).map(option => ({
      long: option.long ?? option.flags,
      description: option.description,
      value: option.required ? (option.argChoices ?? kindOf(option.flags)) : undefined,
      isRepeatable: Array.isArray(option.defaultValue),
    })),
    arguments: command.registeredArguments.map(
      argument => argument.argChoices ?? kindOf(`<${argument.name()}>`),
    ),
    isVariadic: command.registeredArguments.at(-1)?.variadic ?? false,
    commands: help
      .visibleCommands(command)
      .filter(each => each.name() !== 'help')
      .map(each => readSpec(each, path)),
  }
}

/** All commands, the program first. */
export function allOf(spec: CommandSpec): readonly CommandSpec[] {
  return [spec, ...spec.commands.flatMap(allOf)]
}

/** What a value is, by the word that stands for it in help. */
function kindOf(flags: string): ValueKind {
  const [, name = ''] = /<(.*)>/.exec(flags) ?? []
  if (/file|dir|report/.test(name)) return 'file'
  return /^feed/.test(name) ? feedNames : 'other'
}
