import { allOf, type CommandSpec, type ValueKind } from './spec.js'

/** The script that completes the command in fish. */
export function fishCompletion(program: CommandSpec): string {
  const commands = allOf(program)
  const paths = commands.filter(({ path }) => path !== '').map(({ path }) => quote(path))
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
${commands.flatMap(linesOf).join('\n')}
`
}

function linesOf(spec: CommandSpec): readonly string[] {
  const at = `complete -c sluice -n ${quote(`__sluice_at ${quote(spec.path)}`)}`
  const [kind] = spec.arguments
  return [
    ...spec.commands.map(
      ({ path, description }) => `${at} -a ${path.split(' ').at(-1)} -d ${quote(description)}`,
    ),
    ...spec.options.map(
      ({ long, description, value }) =>
        `${at} -l ${long.slice(2)} -d ${quote(description)}${value === undefined ? '' : ` -r${offer(value)}`}`,
    ),
    ...(kind === undefined || kind === 'other' ? [] : [`${at}${offer(kind)}`]),
  ]
}

function offer(kind: ValueKind): string {
  if (kind === 'file') return ' -F'
  if (kind === 'other') return ' -f'
  return ` -f -a ${quote(kind.join(' '))}`
}

function quote(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`
}
