#!/usr/bin/env node
import { VERSION } from 'sluice/client'
import { isStreamsError } from 'sluice/core'
import { help, readSettings, type Settings } from './config.js'
import { serve } from './server.js'
import { Service } from './service.js'

/** The exit code of a wrong option or variable, as of the command `sluice`. */
const WRONG_USAGE = 2

/** Standard output belongs to the protocol. */
const log = (line: string): void => void process.stderr.write(`sluice-mcp: ${line}\n`)

async function run(args: readonly string[]): Promise<void> {
  if (args.includes('--help')) return void process.stdout.write(help)
  if (args.includes('--version')) return void process.stdout.write(`${VERSION}\n`)
  let settings: Settings
  try {
    settings = readSettings(args, process.env)
  } catch (thrown) {
    if (!isStreamsError(thrown, 'VALIDATION')) throw thrown
    log(thrown.message)
    process.exitCode = WRONG_USAGE
    return
  }
  const stopped = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stopped.abort())
  if (settings.credentials === undefined) log('API_KEY and USER_SECRET are not set')
  if (settings.signers === undefined) log('no signers are configured: no price is told')
  const { stdin, stdout } = process
  await serve({ service: new Service(settings), log, stdin, stdout }, stopped.signal)
  // A request that is under way would keep the process alive.
  process.exit()
}

void run(process.argv.slice(2))
