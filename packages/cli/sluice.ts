#!/usr/bin/env node
import { statSync } from 'node:fs'
import module from 'node:module'
import { join } from 'node:path'

cacheCode(process.env)
// The rest is loaded behind the cache.
void import('./program.js').then(async ({ processIO, run }) => {
  process.exitCode = await run(process.argv.slice(2), processIO())
})

/**
 * Has Node.js, from version 22 on, keep compiled code in the user's cache. Its default is a folder
 * of the system that every user may write to, and compiled code is run as it is.
 */
function cacheCode({ XDG_CACHE_HOME, HOME, LOCALAPPDATA }: NodeJS.ProcessEnv): void {
  const { enableCompileCache } = module as { enableCompileCache?: (folder: string) => unknown }
  if (enableCompileCache === undefined) return
  const { platform } = process
  const folder =
    XDG_CACHE_HOME || (platform === 'win32' ? LOCALAPPDATA : HOME && join(HOME, '.cache'))
  if (!folder || !isOwn(folder)) return
  enableCompileCache(join(folder, 'sluice', 'code'))
}

/** Whether a folder belongs to the user of this process. With sudo, HOME may be another's. */
function isOwn(folder: string): boolean {
  try {
    const user = process.geteuid?.()
    return user === undefined || statSync(folder).uid === user
  } catch {
    return false
  }
}
