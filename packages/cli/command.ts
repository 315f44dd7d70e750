import { Argument, type Command, Option } from 'commander'
import { ValidationError } from 'sluice/core'
import { type IO, noteStop } from './io.js'
import { flagOf, type Kind, readValue, type ValueOfKind, wordOf } from './values.js'
import { inWordsOf } from './wording.js'

/**
 * Describes an option of a command. Parsing, checks, completion and help all use this description.
 */
export interface OptionSpec {
  readonly help: string
  /** The kind of the option's value. An option with neither `is` nor `value` is a switch. */
  readonly is?: Kind
  /** The word for the value in the help. @default that of its kind */
  readonly value?: string
  readonly choices?: readonly string[]
  /** The smallest number that the option accepts. */
  readonly min?: number
  /** The largest number that the option accepts. */
  readonly max?: number
  /** The value if the user gives none. A text is parsed like a text that the user gives. */
  readonly default?: string | number
  readonly required?: boolean
  /** The letter of the option's short form. */
  readonly short?: string
  /** True for a switch that is on until `--no-NAME` turns it off. */
  readonly isOn?: boolean
  /** The options that must be given together with this option. */
  readonly needs?: readonly string[]
  /** The options that cannot be given together with this option. */
  readonly excludes?: readonly string[]
  /** The heading in the help under which the option stands. @default Options */
  readonly group?: string
}

/** The options of a command, by their names in camel case. */
export type OptionSpecs = Readonly<Record<string, OptionSpec>>

/**
 * The arguments of a command. A key is an argument as the help writes it: `<feed>`, `[feeds...]`. A
 * value is the help text, or an object with the help text and the rules.
 */
export type ArgumentSpecs = Readonly<
  Record<string, string | Pick<OptionSpec, 'help' | 'is' | 'choices'>>
>

type ValueOf<Spec> = Spec extends { readonly is: infer Name extends Kind }
  ? ValueOfKind<Name>
  : Spec extends { readonly choices: readonly (infer Choice)[] }
    ? Choice
    : Spec extends { readonly value: string }
      ? string
      : boolean
type AlwaysSet =
  | { readonly required: true }
  | { readonly default: string | number }
  | { readonly is: 'list' }
  | { readonly isOn: true }

/** The values of options. An option without a default is absent if the user does not give it. */
export type Values<Specs> = {
  readonly [Name in keyof Specs as Specs[Name] extends AlwaysSet ? Name : never]: ValueOf<
    Specs[Name]
  >
} & {
  readonly [Name in keyof Specs as Specs[Name] extends AlwaysSet ? never : Name]?: ValueOf<
    Specs[Name]
  >
}

type NameIn<Written> = Written extends `${'<' | '['}${infer Name}${'...' | ''}${'>' | ']'}`
  ? Name extends `${infer Bare}...`
    ? Bare
    : Name
  : never
type ArgumentIn<Written, Spec> = Written extends `${string}...${string}`
  ? readonly string[]
  : ValueOf<Spec & { readonly value: string }> | (Written extends `[${string}` ? undefined : never)
type ValuesOfArguments<Specs> = {
  readonly [Written in keyof Specs as NameIn<Written>]: ArgumentIn<Written, Specs[Written]>
}

/** Adds a command to the program, or to a group of commands. */
export type AddCommand = (parent: Command, io: IO) => void

/** Defines a command by its options, arguments, help and examples. Tests check that these agree. */
export function defineCommand<
  const Options extends OptionSpecs = Record<never, never>,
  const Arguments extends ArgumentSpecs = Record<never, never>,
>(spec: {
  readonly name: string
  /** What the help of its group says of it. The table of commands has that of the program's own. */
  readonly help?: string
  readonly arguments?: Arguments
  readonly options?: Options
  readonly examples: readonly string[]
  /** The text that the help shows below the options. */
  readonly after?: string
  /**
   * True for a command that runs until the user stops it: then the stop is its normal end. A
   * function decides by the options.
   */
  readonly runsUntilStopped?: true | ((options: Values<Options>) => boolean)
  readonly run: (options: Values<Options>, io: IO, args: ValuesOfArguments<Arguments>) => unknown
}): AddCommand {
  return function addCommand(parent, io) {
    const command = parent.command(spec.name).description(spec.help ?? '')
    const written = Object.entries<string | Omit<OptionSpec, 'value'>>(spec.arguments ?? {})
    for (const [name, given] of written) {
      const { help, is, choices } = typeof given === 'string' ? { help: given } : given
      const argument = new Argument(name, help)
      if (choices !== undefined) argument.choices(choices)
      if (is !== undefined) argument.argParser(text => readValue(is, text, { name }))
      command.addArgument(argument)
    }
    const options = Object.entries<OptionSpec>(spec.options ?? {})
    for (const [name, option] of options) addOption(command, name, option)
    reportUnknownFirst(command)
    if (spec.after !== undefined) command.addHelpText('after', `\n${spec.after}`)
    const examples = spec.examples.map(example => `  $ ${example}`)
    command.addHelpText('after', `\nExamples:\n${examples.join('\n')}`)
    command.action(async (...given: unknown[]) => {
      for (const [name, { needs = [] }] of options)
        if (isGiven(command, name)) checkNeeds(command, name, needs)
      const args = command.registeredArguments.map((argument, at) => [argument.name(), given[at]])
      const { runsUntilStopped = () => false } = spec
      try {
        await spec.run(command.opts(), io, Object.fromEntries(args))
      } catch (thrown) {
        throw inWordsOf(thrown, {
          options: command.opts(),
          args: Object.fromEntries(args),
          known: new Set(options.map(([name]) => name)),
        })
      } finally {
        if (runsUntilStopped !== true && !runsUntilStopped(command.opts())) noteStop(io)
      }
    })
  }
}

/** Defines a command that only groups other commands. */
export function groupCommands(name: string, commands: readonly AddCommand[]): AddCommand {
  return function addGroup(parent, io) {
    const group = parent.command(name)
    for (const add of commands) add(group, io)
  }
}

/** Returns the options, each of which now needs the option `name`. */
export function needing<const Specs extends OptionSpecs>(name: string, specs: Specs): Specs {
  const added = Object.entries(specs).map(([each, spec]) => [
    each,
    { ...spec, needs: [...(spec.needs ?? []), name] },
  ])
  return Object.fromEntries(added) as Specs
}

/** Returns the options, under a heading of their own in the help. */
export function inGroup<const Specs extends OptionSpecs>(group: string, specs: Specs): Specs {
  const grouped = Object.entries(specs).map(([name, spec]) => [name, { ...spec, group }])
  return Object.fromEntries(grouped) as Specs
}

function addOption(command: Command, name: string, spec: OptionSpec): void {
  const {
    help,
    is,
    value = is && wordOf(is),
    choices,
    short,
    isOn,
    required = false,
    excludes = [],
  } = spec
  const flag = flagOf(name, isOn)
  const option = new Option(
    `${short === undefined ? '' : `-${short}, `}${flag}${value === undefined ? '' : ` <${value}>`}`,
    help,
  )
  const read =
    is === undefined ? undefined : (text: string) => readValue(is, text, { ...spec, name: flag })
  if (spec.group !== undefined) option.helpGroup(`${spec.group}:`)
  if (choices !== undefined) option.choices(choices)
  else if (is === 'list')
    option.default([]).argParser((text, before: readonly string[]) => [...before, text])
  else if (read !== undefined) option.argParser(read)
  const standard = spec.default
  if (typeof standard === 'string' && read !== undefined) option.default(read(standard), standard)
  else if (standard !== undefined) option.default(standard)
  command.addOption(option.conflicts([...excludes]).makeOptionMandatory(required))
  if (is !== 'list') rejectRepeats(command, option)
}

/** The methods of commander that report wrong options before it looks for unknown ones. */
interface Reports {
  missingMandatoryOptionValue(option: Option): void
  _conflictingOption(option: Option, other: Option): void
  unknownOption(flag: string): void
}

/**
 * Has an unknown option reported before a required one that is missing and before a conflict,
 * because a misspelt option is often the cause of these.
 */
function reportUnknownFirst(command: Command): void {
  const reports = command as unknown as Reports
  for (const name of ['missingMandatoryOptionValue', '_conflictingOption'] as const) {
    const report = reports[name].bind(command) as (...options: Option[]) => void
    reports[name] = (...options: Option[]) => {
      const unknown = command.args.find(each => /^--?[a-z]/i.test(each))
      if (unknown !== undefined) reports.unknownOption(unknown)
      report(...options)
    }
  }
}

/**
 * Rejects an option that is given twice, because only the last value would count. A list may be
 * repeated.
 */
function rejectRepeats(command: Command, option: Option): void {
  let isRepeated = false
  command.on(`option:${option.name()}`, () => {
    if (isRepeated) throw new ValidationError(`${option.long} must be given once only`)
    isRepeated = true
  })
}

function isGiven(command: Command, name: string): boolean {
  return command.getOptionValueSource(name) === 'cli'
}

function checkNeeds(command: Command, name: string, needs: readonly string[]): void {
  const { long } = command.options.find(option => option.attributeName() === name) as Option
  const missing = needs.find(each => !isGiven(command, each))
  if (missing !== undefined) throw new ValidationError(`${long} needs ${flagOf(missing)}`)
}

/**
 * Returns the members that are not undefined. The result fits types whose optional members must be
 * absent instead of undefined.
 */
export function given<Members extends object>(
  members: Members,
): { [Name in keyof Members]?: Exclude<Members[Name], undefined> } {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as never
}
