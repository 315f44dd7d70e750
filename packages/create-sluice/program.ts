import { readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { createInterface, type Interface } from 'node:readline/promises'
import { parseArgs } from 'node:util'
import { type IO, UsageError } from './io.js'
import { readName, type Target } from './name.js'
import { installDependencies } from './npm.js'
import { checkFolder, findTarballs, type Kind, kinds, writeProject } from './project.js'

const names = Object.keys(kinds) as Kind[]

const help = `Usage: npm create sluice [NAME] [-- OPTIONS]

Makes a project for sluice in TypeScript, with a test that passes.

  NAME             the folder, and the name of the package: my-plugin, packages/my-plugin,
                   @acme/my-plugin
  --kind KIND      what the project is:
${names.map(kind => `                     ${kind.padEnd(9)}${kinds[kind]}`).join('\n')}
  --no-install     does not run npm install
  --packages DIR   takes sluice from the tarballs in DIR, and not from the registry; the variable
                   SLUICE_PACKAGES does the same
  --yes, -y        asks nothing, and takes the default of what is not given
  --help, -h       prints this

Asks for what is not given. With NAME and --kind it asks nothing.
`

interface Arguments {
  readonly kind: Kind | undefined
  readonly target: Target | undefined
  readonly install: boolean | undefined
  readonly packages: string | undefined
  readonly yes: boolean
  readonly help: boolean
}

/** Reads the kind from its name, or from its number in the list of kinds. */
function readKind(given: string): Kind {
  const found = names.find((kind, index) => given === kind || given === String(index + 1))
  if (found !== undefined) return found
  throw new UsageError(`kind must be one of ${names.join(', ')}: ${JSON.stringify(given)}`)
}

function readArguments(args: readonly string[], { env, cwd }: IO): Arguments {
  const options = {
    kind: { type: 'string' },
    'no-install': { type: 'boolean', default: false },
    packages: { type: 'string' },
    yes: { type: 'boolean', short: 'y', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  } as const
  let parsed: ReturnType<typeof parseArgs<{ options: typeof options; allowPositionals: true }>>
  try {
    parsed = parseArgs({ args: [...args], options, allowPositionals: true })
  } catch (error) {
    // Node adds how to give a name that begins with a dash, which none does.
    throw new UsageError((error as Error).message.replace(/\. .*/s, ''))
  }
  const { values, positionals } = parsed
  const [name, ...others] = positionals
  if (others.length > 0) throw new UsageError(`name must be one: ${positionals.join(' ')}`)
  const packages = values.packages ?? env.SLUICE_PACKAGES
  return {
    kind: values.kind === undefined ? undefined : readKind(values.kind),
    target: name === undefined ? undefined : readName(name, cwd),
    install: values['no-install'] ? false : undefined,
    packages: packages === undefined || packages === '' ? undefined : resolve(cwd, packages),
    yes: values.yes,
    help: values.help,
  }
}

/** Asks until the answer keeps the rules. An empty answer takes the default. */
async function ask<Answer>(
  { stdout }: IO,
  lines: Interface,
  question: string,
  byDefault: string,
  read: (answer: string) => Answer,
): Promise<Answer> {
  for (;;) {
    const closed = new AbortController()
    const close = (): void => closed.abort()
    lines.once('close', close)
    const answer = await lines
      .question(`${question} (${byDefault}): `, { signal: closed.signal })
      .catch(() => {
        throw new UsageError(`no answer to "${question}": nothing was written`)
      })
      .finally(() => lines.off('close', close))
    try {
      return read(answer.trim() || byDefault)
    } catch (error) {
      if (!(error instanceof UsageError)) throw error
      stdout.write(`  ${error.message}\n`)
    }
  }
}

function readYes(answer: string): boolean {
  const found = /^(?:(y|yes)|n|no)$/i.exec(answer)
  if (found === null) throw new UsageError('answer must be y or n')
  return found[1] !== undefined
}

interface Answers {
  readonly kind: Kind
  readonly target: Target
  readonly install: boolean
}

const defaultName = (kind: Kind): string => `my-${kind}`

function readTarget(given: string, cwd: string): Target {
  const target = readName(given, cwd)
  checkFolder(target.folder, cwd)
  return target
}

/** Asks for what the arguments lack: three questions at most. */
async function complete(given: Arguments, io: IO): Promise<Answers> {
  const { kind, target, install = true, yes } = given
  if (kind !== undefined && target !== undefined) return { kind, target, install }
  if (yes) {
    const chosen = kind ?? 'app'
    return {
      kind: chosen,
      target: target ?? readTarget(defaultName(chosen), io.cwd),
      install,
    }
  }
  if (!io.stdin.isTTY || !io.stdout.isTTY) {
    const missing = [target === undefined && 'NAME', kind === undefined && '--kind']
    throw new UsageError(
      `${missing.filter(Boolean).join(' and ')} must be given where there is no terminal; --yes takes the defaults`,
    )
  }
  // The terminal edits a line by itself, and Ctrl-C ends the program.
  const lines = createInterface({ input: io.stdin, output: io.stdout, terminal: false })
  try {
    if (kind === undefined)
      for (const [index, each] of names.entries())
        io.stdout.write(`  ${index + 1} ${each.padEnd(9)}${kinds[each]}\n`)
    const chosen = kind ?? (await ask(io, lines, 'Kind', 'app', readKind))
    return {
      kind: chosen,
      target:
        target ??
        (await ask(io, lines, 'Folder', defaultName(chosen), answer => readTarget(answer, io.cwd))),
      install: given.install ?? (await ask(io, lines, 'Install now', 'y', readYes)),
    }
  } finally {
    lines.close()
  }
}

async function create(given: Arguments, io: IO, home: string): Promise<number> {
  const { version } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'))
  const tarballs = given.packages && findTarballs(given.packages, version)
  if (given.target !== undefined) checkFolder(given.target.folder, io.cwd)
  const { kind, target, install } = await complete(given, io)
  const { written, kept } = writeProject({
    ...target,
    kind,
    home,
    version,
    tarballs: tarballs || undefined,
  })
  const place = relative(io.cwd, target.folder)
  const shown = /\s/.test(place) ? `"${place}"` : place
  io.stdout.write(`wrote ${target.name}: ${written.length} files\n`)
  if (kept.length > 0) io.stdout.write(`kept ${kept.join(', ')}\n`)
  const isInstalled = install && (await installDependencies(target.folder, io.env))
  const steps = [
    ...(place === '' ? [] : [`cd ${shown}`]),
    ...(isInstalled ? [] : ['npm install']),
    'npm test',
    ...(kind === 'app' ? ['npm start'] : []),
  ]
  if (install && !isInstalled)
    io.stderr.write(
      'create-sluice: npm install failed; the project is there without it. --packages DIR takes sluice from tarballs instead of the registry\n',
    )
  io.stdout.write(`\n${steps.map(step => `  ${step}\n`).join('')}`)
  return install && !isInstalled ? 1 : 0
}

/**
 * Runs the program. `home` is the folder of this package. Resolves with the exit code: 0, 1 for a
 * failure, 2 for a wrong argument.
 */
export async function run(args: readonly string[], io: IO, home: string): Promise<number> {
  try {
    const given = readArguments(args, io)
    if (!given.help) return await create(given, io, home)
    io.stdout.write(help)
    return 0
  } catch (error) {
    const isUsage = error instanceof UsageError
    // What a system says of files has a code. Everything else is a defect of this program.
    if (!isUsage && (error as NodeJS.ErrnoException).code === undefined) throw error
    io.stderr.write(`create-sluice: ${(error as Error).message}\n`)
    return isUsage ? 2 : 1
  }
}
