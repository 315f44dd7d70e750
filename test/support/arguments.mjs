// The arguments of a command of this folder: told on --help, and right before the work begins.
import { closeSync, openSync } from 'node:fs'
import { parseArgs } from 'node:util'

function stop(name, message) {
  console.error(`${name}: ${message}; --help tells what there is`)
  process.exit(2)
}

function checkWritable(name, option, path) {
  try {
    closeSync(openSync(path, 'a'))
  } catch (error) {
    stop(name, `--${option}: ${error.message}`)
  }
}

/** The line of an option, `[a value, what it is]`; without a value it is a switch. */
const lineOf = ([name, [value, what]]) => `  ${`--${name} ${value ?? ''}`.padEnd(20)} ${what}`

/**
 * Reads the options of a command, and what else it is given, of which `check` says what is wrong. With --help it prints
 * them and ends with 0; what is unknown or wrong, or a file of `files` that can't be written, ends it with 2.
 */
export function readArguments(args, { name, usage, options, files = [], check }) {
  const known = { ...options, help: [undefined, 'prints this'] }
  const types = Object.entries(known).map(([option, [value]]) => [
    option,
    { type: value === undefined ? 'boolean' : 'string' },
  ])
  let parsed
  try {
    parsed = parseArgs({ args, options: Object.fromEntries(types), allowPositionals: true })
  } catch (error) {
    // What follows the first sentence is about arguments that begin with a dash.
    return stop(name, error.message.split('. ')[0])
  }
  if (parsed.values.help) {
    console.log([`usage: ${usage}`, '', ...Object.entries(known).map(lineOf)].join('\n'))
    process.exit(0)
  }
  const wrong = check(parsed)
  if (wrong !== undefined) return stop(name, wrong)
  for (const option of files) {
    const path = parsed.values[option]
    if (path !== undefined) checkWritable(name, option, path)
  }
  return parsed
}
