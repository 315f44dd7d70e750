// Makes the tarball of the library or of a package. Its pages link to the documents of the repository, which are not in it: those
// links lead to where the repository lies, in the state of the version.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { npm } from './packages.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const { repository, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const files = repository.url.replace(/^git\+|\.git$/g, '')

/** The text of a page of a package, whose links to what the package lacks are those of the repository. */
export function withWholeLinks(text, place, isPacked) {
  return text.replace(/(\]\()([^()\s#:]+)(#[^()\s]*)?(?=\))/g, (link, start, path, anchor = '') => {
    if (isPacked(path)) return link
    const target = posix.join(place, path)
    const kind = /\.(png|svg)$/.test(target) ? 'raw' : 'blob'
    return `${start}${files}/${kind}/v${version}/${target}${anchor}`
  })
}

const flags = ['--json', '--ignore-scripts', '--loglevel=error', '--pack-destination']
// npm 12 answers with an object by package name.
const packIn = (folder, destination) =>
  Object.values(JSON.parse(npm(['pack', ...flags, destination], folder)))[0]

/** Packs what lies at a place of the repository, and returns what npm says of it. */
export function makeTarball(place, destination) {
  const work = mkdtempSync(join(tmpdir(), 'sluice-pack-'))
  try {
    const { filename } = packIn(join(root, place), work)
    execFileSync('tar', ['-xzf', join(work, filename), '-C', work])
    const folder = join(work, 'package')
    for (const page of ['README.md', 'CHANGELOG.md']) {
      const path = join(folder, page)
      if (!existsSync(path)) continue
      const isPacked = target => existsSync(join(folder, target))
      writeFileSync(path, withWholeLinks(readFileSync(path, 'utf8'), place, isPacked))
    }
    return packIn(folder, destination)
  } finally {
    rmSync(work, { recursive: true, force: true, maxRetries: 5 })
  }
}
