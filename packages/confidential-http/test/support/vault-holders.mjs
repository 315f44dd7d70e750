// The holders of a vault, each a process: `sluice vault holder`.
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createKeys } from '@sluice/confidential-http'

const command = fileURLToPath(new URL('../../../cli/dist/esm/sluice.js', import.meta.url))
const HOLDERS = 3

/** Starts holders below a directory, with this environment. They know each other, the vault's writer and the caller. */
export function startHolders({ directory, writer, caller, env }) {
  const holders = Array.from({ length: HOLDERS }, (_, index) => ({
    directory: join(directory, `holder-${index}`),
    keys: createKeys(),
  }))
  const known = holders.flatMap(({ keys }) => ['--peer', keys.publicKey])
  return Promise.all(
    holders.map(async ({ directory: own, keys }) => {
      mkdirSync(own, { mode: 0o700 })
      writeFileSync(join(own, 'holder.key'), `${keys.secretKey}\n`, { mode: 0o600 })
      const options = ['--dir', own, '--listen', '127.0.0.1:0', '--allow-instrumentation']
      const trust = ['--writer', writer, '--caller', caller, ...known]
      const child = spawn(process.execPath, [command, 'vault', 'holder', ...options, ...trust], {
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      process.on('exit', () => child.kill('SIGKILL'))
      const printed = []
      const url = await new Promise((resolve, reject) => {
        for (const stream of [child.stdout, child.stderr])
          stream.on('data', chunk => {
            printed.push(chunk)
            const [, found] = /HOLDER_URL=(\S+)\n/.exec(Buffer.concat(printed).toString()) ?? []
            if (found !== undefined) resolve(found)
          })
        child.on('exit', code => reject(new Error(`a holder ended with ${code}`)))
      })
      return {
        address: { url, key: keys.publicKey },
        pid: child.pid,
        printed: () => Buffer.concat(printed).toString('latin1'),
      }
    }),
  )
}
