import type { Command, Help } from 'commander'
import { knownFeeds } from 'sluice'

/** The value of an option or an argument: a file, one of a list of words, or any other text. */
type ValueKind = 'file' | 'other' | readonly string[]

/** An option of a command. */
interface OptionSpec {
  /** The long form with its dashes: `--json`. */
  readonly long: string
  readonly description: string
  /** The kind of value; undefined if the option takes none. */
  readonly value: ValueKind | undefined
  readonly isRepeatable: boolean
}

/** A command as a completion script needs it. */
export interface CommandSpec {
  /** The names of the command and its groups, such as `vault put`; empty for the program. */
  readonly path: string
  readonly description: string
  readonly options: readonly OptionSpec[]
  readonly arguments: readonly ValueKind[]
  /** True if the last argument may be given more than once. */
  readonly isVariadic: boolean
  readonly commands: readonly CommandSpec[]
}

/** The names of feeds that the completion offers. */
const feedNames: readonly string[] = [
  ...new Set(Object.values(knownFeeds).flatMap(feeds => Object.keys(feeds))),
]

/** Describes a command of commander, and its subcommands. */
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

/** A command and all its subcommands, the command first. */
export function allOf(spec: CommandSpec): readonly CommandSpec[] {
  return [spec, ...spec.commands.flatMap(allOf)]
}

/** Derives the kind of a value from the word for the value in the help. */
function kindOf(flags: string): ValueKind {
  const [, name = ''] = /<(.*)>/.exec(flags) ?? []
  if (/file|dir|report/.test(name)) return 'file'
  return /^feed/.test(name) ? feedNames : 'other'
}

/** The completion script for bash. If the script offers nothing, bash completes file names. */
function bashCompletion(program: CommandSpec): string {
  const commands = allOf(program)
  const paths = commands.filter(({ path }) => path !== '').map(({ path }) => inDoubleQuotes(path))
  const values = commands.flatMap(({ path, options }) =>
    options.flatMap(({ long, value }) =>
      value === undefined || value === 'file'
        ? []
        : [`    ${inDoubleQuotes(`${path} ${long}`)}) ${bashOffer(value)}; return ;;`],
    ),
  )
  const files = commands.flatMap(({ path, options }) =>
    options.flatMap(({ long, value }) =>
      value === 'file' ? [inDoubleQuotes(`${path} ${long}`)] : [],
    ),
  )
  return `# bash completion of sluice: source <(sluice completion bash)
_sluice_offer() { COMPREPLY=($(compgen -W "$1" -- "$cur")); }
_sluice() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD - 1]}" path="" i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${path:+$path }\${COMP_WORDS[i]}" in
      ${paths.join(' | ')}) path="\${path:+$path }\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path $prev" in
    ${files.join(' | ')}) return ;;
${values.join('\n')}
  esac
  case "$path" in
${commands.map(bashCase).join('\n')}
  esac
}
complete -o default -F _sluice sluice
`
}

function bashCase({ path, options, arguments: expected, commands }: CommandSpec): string {
  const dashed = `_sluice_offer "${options.map(({ long }) => long).join(' ')}"`
  const [kind] = expected
  const rest =
    commands.length > 0
      ? `_sluice_offer "${commands.map(each => each.path.split(' ').at(-1)).join(' ')}"`
      : kind === undefined || kind === 'file'
        ? ':'
        : bashOffer(kind)
  return `    ${inDoubleQuotes(path)}) if [[ "$cur" == -* ]]; then ${dashed}; else ${rest}; fi ;;`
}

function bashOffer(kind: Exclude<ValueKind, 'file'>): string {
  // This turns off bash's default, which would offer file names.
  if (kind === 'other') return 'compopt +o default 2>/dev/null'
  return `_sluice_offer "${kind.join(' ')}"`
}

function inDoubleQuotes(text: string): string {
  return `"${text}"`
}

/** The completion script for fish. */
function fishCompletion(program: CommandSpec): string {
  const commands = allOf(program)
  const paths = commands.filter(({ path }) => path !== '').map(({ path }) => fishQuote(path))
  return `# fish completion of sluice: sluice completion fish | source
function __sluice_at
  set -l path
  for word in (commandline -opc)[2..]
    if contains -- (string join ' ' $path $word) ${paths.join(' ')}
      set -a path $word
    end
  end
  test "$path" = "$argv[1]"
end
complete -c sluice -f
${commands.flatMap(fishLines).join('\n')}
`
}

function fishLines(spec: CommandSpec): readonly string[] {
  const at = `complete -c sluice -n ${fishQuote(`__sluice_at ${fishQuote(spec.path)}`)}`
  const [kind] = spec.arguments
  return [
    ...spec.commands.map(
      ({ path, description }) => `${at} -a ${path.split(' ').at(-1)} -d ${fishQuote(description)}`,
    ),
    ...spec.options.map(
      ({ long, description, value }) =>
        `${at} -l ${long.slice(2)} -d ${fishQuote(description)}${value === undefined ? '' : ` -r${fishOffer(value)}`}`,
    ),
    ...(kind === undefined || kind === 'other' ? [] : [`${at}${fishOffer(kind)}`]),
  ]
}

function fishOffer(kind: ValueKind): string {
  if (kind === 'file') return ' -F'
  if (kind === 'other') return ' -f'
  return ` -f -a ${fishQuote(kind.join(' '))}`
}

function fishQuote(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`
}

/** The completion script for zsh. */
function zshCompletion(program: CommandSpec): string {
  return `#compdef sluice
# zsh completion of sluice: source <(sluice completion zsh), after compinit
${allOf(program).map(zshFunction).join('\n')}
if [[ "$funcstack[1]" == _sluice ]]; then _sluice "$@"; else compdef _sluice sluice; fi
`
}

function zshFunction(spec: CommandSpec): string {
  const { options, arguments: expected, isVariadic, commands } = spec
  const flags = options.map(zshOption)
  if (commands.length > 0)
    return `${nameOf(spec)}() {
  local context state state_descr line
  local -a commands=(${commands.map(each => zshQuote(`${lastOf(each)}:${escapeText(each.description)}`)).join(' ')})
  _arguments -C ${flags.join(' ')} '1: :->command' '*:: :->rest'
  case $state in
    command) _describe command commands ;;
    rest) case $words[1] in
${commands.map(each => `      ${lastOf(each)}) ${nameOf(each)} ;;`).join('\n')}
    esac ;;
  esac
}`
  const places = expected.map((kind, index) => {
    const isRest = isVariadic && index === expected.length - 1
    return zshQuote(
      `${isRest ? '*' : index + 1}:${typeof kind === 'string' ? ' ' : 'feed'}:${zshAction(kind)}`,
    )
  })
  return `${nameOf(spec)}() {
  _arguments ${[...flags, ...places].join(' ')}
}`
}

function zshOption({ long, description, value, isRepeatable }: OptionSpec): string {
  const ending = value === undefined ? '' : `: :${zshAction(value)}`
  const name = value === undefined ? long : `${long}=`
  return zshQuote(`${isRepeatable ? '*' : ''}${name}[${escapeText(description)}]${ending}`)
}

function zshAction(kind: ValueKind): string {
  if (kind === 'file') return '_files'
  if (kind === 'other') return ' '
  return `(${kind.join(' ')})`
}

const lastOf = ({ path }: CommandSpec): string => path.split(' ').at(-1) as string
const nameOf = ({ path }: CommandSpec): string =>
  `_sluice${path === '' ? '' : `_${path.replaceAll(' ', '_')}`}`

/**
 * Escapes the characters with a special meaning in the descriptions of _arguments and _describe.
 */
function escapeText(text: string): string {
  return text.replace(/[[\]:\\]/g, '\\$&')
}

function zshQuote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** The completion script of each shell. */
export const scripts: Readonly<Record<'bash' | 'zsh' | 'fish', (program: CommandSpec) => string>> =
  { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion }
