import { allOf, type CommandSpec, type OptionSpec, type ValueKind } from './spec.js'

/** The script that completes the command in zsh. */
export function zshCompletion(program: CommandSpec): string {
  return `#compdef sluice
# zsh completion of sluice: source <(sluice completion zsh), after compinit
${allOf(program).map(functionOf).join('\n')}
if [[ "$funcstack[1]" == _sluice ]]; then _sluice "$@"; else compdef _sluice sluice; fi
`
}

function functionOf(spec: CommandSpec): string {
  const { options, arguments: expected, isVariadic, commands } = spec
  const flags = options.map(optionOf)
  if (commands.length > 0)
    return `${nameOf(spec)}() {
  local context state state_descr line
  local -a commands=(${commands.map(each => quote(`${lastOf(each)}:${escapeText(each.description)}`)).join(' ')})
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
    return quote(
      `${isRest ? '*' : index + 1}:${typeof kind === 'string' ? ' ' : 'feed'}:${action(kind)}`,
    )
  })
  return `${nameOf(spec)}() {
  _arguments ${[...flags, ...places].join(' ')}
}`
}

function optionOf({ long, description, value, isRepeatable }: OptionSpec): string {
  const ending = value === undefined ? '' : `: :${action(value)}`
  const name = value === undefined ? long : `${long}=`
  return quote(`${isRepeatable ? '*' : ''}${name}[${escapeText(description)}]${ending}`)
}

function action(kind: ValueKind): string {
  if (kind === 'file') return '_files'
  if (kind === 'other') return ' '
  return `(${kind.join(' ')})`
}

const lastOf = ({ path }: CommandSpec): string => path.split(' ').at(-1) as string
const nameOf = ({ path }: CommandSpec): string =>
  `_sluice${path === '' ? '' : `_${path.replaceAll(' ', '_')}`}`

/** What has a meaning in the descriptions of _arguments and _describe. */
function escapeText(text: string): string {
  return text.replace(/[[\]:\\]/g, '\\$&')
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
