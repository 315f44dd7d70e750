// Checks that what is here can be released, and runs a publication that does not happen: npm run release:check.
// With --tag v1.2.3, everything that the release of this version needs; without, what is only due then is named.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { findStrangers, npm, packages, tagFlags } from './packages.mjs'
import { makeTarball } from './tarball.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = path => readFileSync(join(root, path), 'utf8')
/** Each package: its folder, and its package.json. */
const all = Object.values(packages).map(folder => ({
  folder,
  manifest: JSON.parse(read(join(folder, 'package.json'))),
}))
const { manifest } = all[0]
const { tag } = parseArgs({ options: { tag: { type: 'string' } } }).values

/** The releases of a package's changelog, newest first, and what stands below each heading. */
function readChangelog(folder) {
  const path = join(folder, 'CHANGELOG.md')
  const [, ...parts] = read(path).split(/^## /m)
  return parts.map(part => {
    const [heading, ...lines] = part.split('\n')
    const [, version, date] = /^\[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?$/.exec(heading) ?? []
    assert.ok(version, `${path}: "${heading}" is not of the form [1.2.3] - 2027-01-31`)
    return { version, date, text: lines.join('\n').trim() }
  })
}

const numbers = version => version.split(/[.-]/, 3).map(Number)

function isNewer(one, other) {
  const [left, right] = [numbers(one), numbers(other)]
  const at = left.findIndex((number, index) => number !== right[index])
  return at !== -1 && left[at] > right[at]
}

/** The releases of a changelog stand newest first, and each says what changed, and when. */
function checkChangelog(folder) {
  const [unreleased, ...releases] = readChangelog(folder)
  assert.deepEqual([unreleased?.version, unreleased?.date], ['Unreleased', undefined])
  for (const [index, { version, date, text }] of releases.entries()) {
    assert.ok(date && !Number.isNaN(Date.parse(date)), `${folder}: ${version} has no date`)
    assert.ok(text !== '', `${folder}: ${version} says nothing`)
    const older = releases[index + 1]
    const isInOrder = !older || isNewer(version, older.version)
    assert.ok(isInOrder, `${folder}: ${version} stands above ${older?.version}`)
  }
}

/** A publication of a package that does not happen: its files, and its bytes. */
function checkPublication({ folder, manifest }) {
  const flags = ['--dry-run', '--json', '--ignore-scripts', '--loglevel=error']
  const args = ['publish', ...flags, ...tagFlags(manifest.version)]
  const report = JSON.parse(npm(args, join(root, folder)))
  const found = report.files ? report : Object.values(report)[0]
  assert.equal(`${found.name}@${found.version}`, `${manifest.name}@${manifest.version}`)
  const files = found.files.map(({ path }) => path)
  const papers = ['README.md', 'LICENSE', 'CHANGELOG.md', 'package.json']
  const folders = manifest.files.filter(path => ['dist', 'templates'].includes(path))
  const isMeant = path => papers.includes(path) || folders.some(each => path.startsWith(`${each}/`))
  const others = files.filter(path => !isMeant(path))
  assert.deepEqual(others, [], `${manifest.name} would be published with these`)
  const commands = Object.values(manifest.bin ?? {}).flatMap(path => [path, `${path}.map`])
  const entries = Object.values(manifest.exports).flatMap(entry =>
    Object.values(entry.import ? entry : {}),
  )
  for (const path of [...papers, ...commands, ...entries.map(each => each.slice(2))])
    assert.ok(files.includes(path), `${path} is not in ${manifest.name}`)
  const tarball = join(root, 'packed', found.filename)
  if (existsSync(tarball)) {
    const digest = createHash('sha512').update(readFileSync(tarball)).digest('base64')
    const again = mkdtempSync(join(tmpdir(), 'sluice-release-'))
    const { integrity } = makeTarball(folder, again)
    rmSync(again, { recursive: true, force: true })
    const isSame = integrity === `sha512-${digest}`
    assert.ok(isSame, `packed/${found.filename} is not of this build: npm run pack`)
  }
  return `${files.length} files, ${found.size} bytes packed, ${found.unpackedSize} unpacked`
}

/** What must hold at any time. */
const always = {
  'the version is the same everywhere'() {
    assert.deepEqual(findStrangers(root), [])
  },
  'the changelogs have a section per release, newest first'() {
    for (const { folder } of all) checkChangelog(folder)
  },
  'one repository is named'() {
    const url = manifest.repository.url.replace(/^git\+(.+)\.git$/, '$1')
    assert.match(url, /^https:\/\/github\.com\/[\w-]+\/[\w.-]+$/)
    for (const { folder, manifest } of all) {
      const { name, repository, bugs, homepage } = manifest
      const isRoot = folder === '.'
      const page = isRoot ? `${url}#readme` : `${url}/tree/main/${folder}#readme`
      const place = { type: 'git', url: `git+${url}.git`, ...(!isRoot && { directory: folder }) }
      const expected = { name, repository: place, bugs: `${url}/issues`, homepage: page }
      assert.deepEqual({ name, repository, bugs, homepage }, expected)
    }
  },
  ...Object.fromEntries(
    all.map(each => [`npm would publish ${each.manifest.name}`, () => checkPublication(each)]),
  ),
}

/** What a release needs besides. */
const atRelease = {
  'the tag is that of the version'() {
    assert.ok(tag === `v${manifest.version}`, `the version is ${manifest.version}, the tag ${tag}`)
  },
  'the changelogs have this version, and nothing is left under Unreleased'() {
    for (const { folder } of all) {
      const [unreleased, newest] = readChangelog(folder)
      const isThis = newest?.version === manifest.version
      assert.ok(isThis, `${folder}: the newest is ${newest?.version}`)
      assert.ok(Date.parse(newest.date) <= Date.now(), `${folder}: ${newest.date} is to come`)
      assert.ok(unreleased.text === '', `${folder}: Unreleased is not empty`)
    }
  },
  'the placeholder OWNER is replaced, by the repository that publishes'() {
    const { url } = manifest.repository
    assert.ok(!url.includes('/OWNER/'), `package.json names ${url}`)
    for (const { folder } of all)
      assert.ok(
        !read(join(folder, 'README.md')).includes('/OWNER/'),
        `${folder}/README.md names OWNER`,
      )
    const { GITHUB_REPOSITORY: here } = process.env
    const isHere = here === undefined || url === `git+https://github.com/${here}.git`
    assert.ok(isHere, `package.json names ${url}, and this is ${here}`)
  },
  'nothing is changed that is not committed'() {
    const changed = execFileSync('git', ['status', '--porcelain'], { cwd: root, encoding: 'utf8' })
    assert.ok(changed === '', changed)
  },
}

function check(name, task, isDue) {
  try {
    const remark = task()
    console.log(`  ok    ${name}${remark === undefined ? '' : `: ${remark}`}`)
  } catch (error) {
    const why = (error.stderr || error.message).trim().replace(/^/gm, '        ')
    console.log(`  ${isDue ? 'FAIL ' : 'later'} ${name}\n${why}`)
    if (isDue) process.exitCode = 1
  }
}

for (const [name, task] of Object.entries(always)) check(name, task, true)
for (const [name, task] of Object.entries(atRelease)) check(name, task, tag !== undefined)
console.log(
  process.exitCode === 1
    ? 'release: not ready'
    : 'release: nothing was published, and all that is due holds',
)
