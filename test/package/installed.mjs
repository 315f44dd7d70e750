// What an installation takes on disk, beside one of the official SDK: both by npm, into empty folders, every file counted.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { install, root } from './steps.mjs'

/** Of the bytes that the official SDK takes. */
const SHARE = 1 / 3
const official = '@chainlink/data-streams-sdk'

/** Bytes of all files below a folder. Links, as those of commands, are none. */
function bytesIn(folder) {
  return readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return sum + bytesIn(path)
    return sum + (entry.isFile() ? statSync(path).size : 0)
  }, 0)
}

async function measure(folder, what) {
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  await install(folder, [what])
  return bytesIn(join(folder, 'node_modules'))
}

/** Optional peers count on neither side: npm installs none, and nothing of ours needs one to begin with. */
export async function checkInstalled({ tarball }, newFolder) {
  const manifest = join(root, 'node_modules', official, 'package.json')
  const { version } = JSON.parse(readFileSync(manifest, 'utf8'))
  const [ours, theirs] = await Promise.all([
    measure(newFolder('installed-ours'), tarball),
    measure(newFolder('installed-official'), `${official}@${version}`),
  ])
  const share = ours / theirs
  const facts = `${share.toFixed(3)} of it: ${(ours / 1e6).toFixed(2)} of ${(theirs / 1e6).toFixed(2)} MB`
  assert.ok(share <= SHARE, `${facts}, which is more than ${SHARE.toFixed(3)}`)
  return facts
}
