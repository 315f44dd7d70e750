import { ValidationError } from 'sluice/core'
import { type AddCommand, defineCommand, groupCommands } from '../command.js'
import { say, tell } from '../io.js'
import { Contexts, contextOptions, findContext, type ServiceContext } from '../service/contexts.js'
import { flagOf } from '../values.js'

const nameText = 'the name of the context'

const addAddCommand: AddCommand = defineCommand({
  name: 'add',
  help: 'add a context: a service, and the file with its credentials',
  arguments: { '<name>': nameText },
  options: contextOptions,
  after: 'A context holds no credentials, but the path of the file for --env-file that has them.',
  examples: [
    'sluice context add prod --mainnet --env-file ~/.secrets/prod.env',
    'sluice context add local --env-file engine.env',
  ],
  async run(options, io, { name }) {
    if (Object.keys(options).length === 0)
      throw new ValidationError('--mainnet, --testnet, --endpoint or --env-file must be given')
    await Contexts.read(io.env).add(name, options)
    tell(io, `context ${name} is added: sluice context use ${name} has commands use it`)
  },
})

const addListCommand: AddCommand = defineCommand({
  name: 'list',
  help: 'list the contexts; a star is before the one in use',
  examples: ['sluice context list'],
  run(_options, io) {
    const contexts = Contexts.read(io.env)
    const used = findContext(undefined, io.env)?.name
    const all = contexts.list()
    const width = Math.max(...all.map(({ name }) => name.length))
    for (const { name, context } of all)
      say(io, `${name === used ? '*' : ' '} ${name.padEnd(width)}  ${describe(context).join(' ')}`)
    if (all.length === 0) tell(io, 'there are none: sluice context add makes one')
  },
})

const addUseCommand: AddCommand = defineCommand({
  name: 'use',
  help: 'have commands use a context; without a name, none',
  arguments: { '[name]': nameText },
  examples: ['sluice context use prod', 'sluice context use'],
  async run(_options, io, { name }) {
    await Contexts.read(io.env).use(name)
    tell(io, name === undefined ? 'no context is in use' : `context ${name} is in use`)
  },
})

const addShowCommand: AddCommand = defineCommand({
  name: 'show',
  help: 'show a context: without a name, the one in use',
  arguments: { '[name]': nameText },
  examples: ['sluice context show', 'sluice context show prod'],
  run(_options, io, args) {
    const contexts = Contexts.read(io.env)
    const found =
      args.name === undefined ? findContext(undefined, io.env) : contexts.get('context', args.name)
    if (found === undefined)
      throw new ValidationError('no context is in use: sluice context use NAME, or give a name')
    say(io, `context ${found.name}, of ${contexts.path}`)
    for (const line of describe(found.context)) say(io, `  ${line}`)
  },
})

const addRemoveCommand: AddCommand = defineCommand({
  name: 'rm',
  help: 'remove a context; its files stay',
  arguments: { '<name>': nameText },
  examples: ['sluice context rm prod'],
  async run(_options, io, { name }) {
    await Contexts.read(io.env).remove(name)
    tell(io, `context ${name} is removed`)
  },
})

/** Adds `context` and the commands below it. */
export const addContextCommands: AddCommand = groupCommands(
  'context',

  [addAddCommand, addListCommand, addUseCommand, addShowCommand, addRemoveCommand],
)

/** The options that a context stands for. */
function describe(context: ServiceContext): readonly string[] {
  return Object.entries(context).map(([name, value]) =>
    value === true ? flagOf(name) : `${flagOf(name)} ${value}`,
  )
}
