// Checks that what is here can be released, and runs a publication that does not happen: npm run release:check.
// With --tag v1.2.3, everything that the release of this version needs; without, what is only due then is named.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { VERSION } from '../dist/esm/client/index.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = path => readFileSync(join(root, path), 'utf8')
const manifest = JSON.parse(read('package.json'))
const { tag } = parseArgs({ options: { tag: { type: 'string' } } }).values

function run(command, ...args) {
  const shell = process.platform === 'win32'
  const stdio = ['ignore', 'pipe', 'pipe']
  return execFileSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    shell,
    stdio,
    maxBuffer: 2 ** 26,
  })
}

/** The releases of the changelog, newest first, and what stands below each heading. */
function readChangelog() {
  const [, ...parts] = read('CHANGELOG.md').split(/^## /m)
  return parts.map(part => {
    const [heading, ...lines] = part.split('\n')
    const [, version, date] = /^\[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?$/.exec(heading) ?? []
    assert.ok(version, `CHANGELOG.md: "${heading}" is not of the form [1.2.3] - 2027-01-31`)
    return { version, date, text: lines.join('\n').trim() }
  })
}

const numbers = version => version.split(/[.-]/, 3).map(Number)

function isNewer(one, other) {
  const [left, right] = [numbers(one), numbers(other)]
  const at = left.findIndex((number, index) => number !== right[index])
  return at !== -1 && left[at] > right[at]
}

/** What must hold at any time. */
const always = {
  'the version is the same everywhere'() {
    const lock = JSON.parse(read('package-lock.json'))
    const { version } = manifest
    assert.deepEqual(
      [VERSION, lock.version, lock.packages[''].version],
      [version, version, version],
    )
  },
  'the changelog has a section per release, newest first'() {
    const [unreleased, ...releases] = readChangelog()
    assert.deepEqual([unreleased.version, unreleased.date], ['Unreleased', undefined])
    for (const [index, { version, date, text }] of releases.entries()) {
      assert.ok(date && !Number.isNaN(Date.parse(date)), `${version} has no date`)
      assert.ok(text !== '', `${version} says nothing`)
      const older = releases[index + 1]
      assert.ok(
        !older || isNewer(version, older.version),
        `${version} stands above ${older?.version}`,
      )
    }
  },
  'one repository is named'() {
    const { repository, bugs, homepage } = manifest
    const url = repository.url.replace(/^git\+(.+)\.git$/, '$1')
    assert.match(url, /^https:\/\/github\.com\/[\w-]+\/[\w.-]+$/)
    assert.deepEqual([bugs, homepage], [`${url}/issues`, `${url}#readme`])
  },
  'npm would publish it'() {
    const args = ['publish', '--dry-run', '--json', '--ignore-scripts', '--loglevel=error']
    const report = JSON.parse(run('npm', ...args))
    const packed = report.files ? report : Object.values(report)[0]
    assert.equal(`${packed.name}@${packed.version}`, `${manifest.name}@${manifest.version}`)
    const files = packed.files.map(({ path }) => path)
    const papers = ['README.md', 'LICENSE', 'CHANGELOG.md', 'package.json']
    const others = files.filter(path => !path.startsWith('dist/') && !papers.includes(path))
    assert.deepEqual(others, [])
    for (const path of [...papers, manifest.bin.sluice, `${manifest.bin.sluice}.map`])
      assert.ok(files.includes(path), `${path} is not in it`)
    return `${files.length} files, ${packed.size} bytes packed, ${packed.unpackedSize} unpacked`
  },
}

/** What a release needs besides. */
const atRelease = {
  'the tag is that of the version'() {
    assert.ok(tag === `v${manifest.version}`, `the version is ${manifest.version}, the tag ${tag}`)
  },
  'the changelog has this version, and nothing is left under Unreleased'() {
    const [unreleased, newest] = readChangelog()
    assert.ok(newest?.version === manifest.version, `the newest is ${newest?.version}`)
    assert.ok(Date.parse(newest.date) <= Date.now(), `${newest.date} is to come`)
    assert.ok(unreleased.text === '', 'Unreleased is not empty')
  },
  'the placeholder OWNER is replaced, by the repository that publishes'() {
    const { url } = manifest.repository
    assert.ok(!url.includes('/OWNER/'), `package.json names ${url}`)
    const { GITHUB_REPOSITORY: here } = process.env
    const isHere = here === undefined || url === `git+https://github.com/${here}.git`
    assert.ok(isHere, `package.json names ${url}, and this is ${here}`)
  },
  'nothing is changed that is not committed'() {
    const changed = run('git', 'status', '--porcelain')
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
