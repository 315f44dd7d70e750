import { builtinModules } from 'node:module'
import { basename, resolve } from 'node:path'
import { UsageError } from './io.js'

/** What a project is called, and where it lies. */
export interface Target {
  /** The name of the package, such as `my-plugin` or `@acme/my-plugin`. */
  readonly name: string
  /** The absolute path of the folder. */
  readonly folder: string
}

/** The packages that a project depends on. npm installs no package into itself. */
const dependencies = ['sluice', '@sluice/engine', 'typescript', '@types/node']

/**
 * For Windows: its devices. No folder may have these names, whatever follows a dot. A project may
 * move to Windows later, so the rule holds everywhere.
 */
const device = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/

/** The rules of npm for each part of a name, and those of Windows for a folder. */
const rules: readonly (readonly [rule: string, isKept: (part: string) => boolean])[] = [
  ['must not be empty', part => part !== ''],
  [
    'must have no characters but letters of English, digits, ".", "_" and "-"',
    part => /^[\w.-]+$/.test(part),
  ],
  ['must begin with a letter or a digit', part => /^[a-z\d]/.test(part)],
  // For Windows, which drops a dot at the end of a folder's name.
  ['must not end with a dot', part => !part.endsWith('.')],
  ['must not be the name of a device of Windows', part => !device.test(part)],
  ['must not be a name that npm keeps', part => !/^(node_modules|favicon\.ico)$/.test(part)],
]

function checkName(name: string): void {
  const refuse = (rule: string): never => {
    throw new UsageError(`name ${rule}: ${JSON.stringify(name)}`)
  }
  if (name.length > 214) refuse('must have at most 214 characters')
  for (const part of name.replace(/^@/, '').split('/'))
    for (const [rule, isKept] of rules) if (!isKept(part)) refuse(rule)
  if (builtinModules.includes(name)) refuse('must not be the name of a module of Node')
  if (dependencies.includes(name)) refuse('must not be that of a package which the project needs')
}

/**
 * Finds the package and the folder that a name stands for: `my-plugin`, `packages/my-plugin`, `.`,
 * or `@acme/my-plugin`, whose folder is `my-plugin`. The name has to keep the rules of npm, and is
 * in lower case, whatever the case of the folder.
 */
export function readName(given: string, cwd: string): Target {
  if (given === '') throw new UsageError('name must not be empty')
  const [, inScope] = /^@[^/\\]+\/([^/\\]+)$/.exec(given) ?? []
  const folder = resolve(cwd, inScope ?? given)
  const name = (inScope === undefined ? basename(folder) : given).toLowerCase()
  checkName(name)
  return { name, folder }
}
