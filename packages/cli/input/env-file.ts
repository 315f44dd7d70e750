import * as util from 'node:util'
import { ValidationError } from 'sluice/core'
import type { IO } from '../io.js'
import { readFile } from './files.js'

/** Adds the variables of a file to the environment, as `node --env-file` does: what is set already stays. */
export function addEnvFile({ env }: IO, path: string): void {
  if (typeof util.parseEnv !== 'function')
    throw new ValidationError('--env-file needs Node 20.12, or 21.7')
  for (const [name, value] of Object.entries(
    util.parseEnv(readFile('--env-file', path).toString()),
  ))
    env[name] ??= value
}
