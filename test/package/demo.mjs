// What a newcomer does first: the command's demo, in an empty folder.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { install, npm } from './steps.mjs'

/** Installs the tarballs together, and has npx run the demo; npx finds the command of the folder. */
export async function checkDemo({ tarballs }, folder) {
  writeFileSync(`${folder}/package.json`, '{ "private": true }')
  await install(folder, tarballs)
  const args = ['exec', '--offline', '--', 'sluice', 'demo', '--seconds', '3']
  const { stdout } = await npm(args, { cwd: folder, timeout: 120_000 })
  assert.match(stdout, /lost +0/)
  // It looks at what is installed, and fails at what it has no keys for.
  const doctor = [
    'exec',
    '--offline',
    '--',
    'sluice',
    'doctor',
    '--json',
    '--endpoint',
    'http://127.0.0.1:9',
  ]
  const { message } = await npm([...doctor, '--ws-endpoint', 'ws://127.0.0.1:9'], {
    cwd: folder,
  }).catch(error => error)
  assert.match(message, /"check":"packages","status":"ok"/)
  return stdout.split('\n').find(line => /lost/.test(line))
}
