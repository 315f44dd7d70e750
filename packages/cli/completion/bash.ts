import { allOf, type CommandSpec, type ValueKind } from './spec.js'

/** The script that completes the command in bash. Where it offers nothing, bash completes names of files. */
export function bashCompletion(program: CommandSpec): string {
  const commands = allOf(program)
  const paths = commands.filter(({ path }) => path !== '').map(({ path }) => quote(path))
  const values = commands.flatMap(({ path, options }) =>
    options.flatMap(({ long, value }) =>
      value === undefined || value === 'file'
        ? []
        : [`    ${quote(`${path} ${long}`)}) ${offer(value)}; return ;;`],
    ),
  )
  const files = commands.flatMap(({ path, options }) =>
    options.flatMap(({ long, value }) => (value === 'file' ? [quote(`${path} ${long}`)] : [])),
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
${commands.map(caseOf).join('\n')}
  esac
}
complete -o default -F _sluice sluice
`
}

function caseOf({ path, options, arguments: expected, commands }: CommandSpec): string {
  const dashed = `_sluice_offer "${options.map(({ long }) => long).join(' ')}"`
  const [kind] = expected
  const rest =
    commands.length > 0
      ? `_sluice_offer "${commands.map(each => each.path.split(' ').at(-1)).join(' ')}"`
      : kind === undefined || kind === 'file'
        ? ':'
        : offer(kind)
  return `    ${quote(path)}) if [[ "$cur" == -* ]]; then ${dashed}; else ${rest}; fi ;;`
}

function offer(kind: Exclude<ValueKind, 'file'>): string {
  // Without the default there are no names of files.
  if (kind === 'other') return 'compopt +o default 2>/dev/null'
  return `_sluice_offer "${kind.join(' ')}"`
}

function quote(text: string): string {
  return `"${text}"`
}
