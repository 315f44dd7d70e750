import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { manifest, manifestOf, packages, root } from '../support/sources.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-release-'))
afterAll(() => rmSync(folder, { recursive: true }))
const published = ['dist', 'package.json', 'CHANGELOG.md', 'README.md', 'LICENSE']
for (const path of [
  'build',
  'core/version.ts',
  'package-lock.json',
  ...['.', ...packages].flatMap(each => published.map(file => join(each, file))),
])
  cpSync(join(root, path), join(folder, path), { recursive: true })

type Edits = Readonly<Record<string, (text: string) => string>>

/** Runs the check after edits of files, which are taken back. */
function checkAfter(edits: Edits, ...args: string[]) {
  const before = Object.keys(edits).map(path => [path, readFileSync(join(folder, path), 'utf8')])
  for (const [path = '', text = ''] of before)
    writeFileSync(join(folder, path), edits[path]?.(text) ?? '')
  const script = join(folder, 'build/check-release.mjs')
  const { stdout, stderr, status } = spawnSync(process.execPath, [script, ...args], {
    encoding: 'utf8',
    env: { ...process.env, GITHUB_REPOSITORY: 'someone/sluice' },
  })
  for (const [path = '', text = ''] of before) writeFileSync(join(folder, path), text)
  return { status, text: stdout + stderr }
}

test('what is here could be published, and what a release lacks is named', () => {
  const { status, text } = checkAfter({})
  for (const name of ['.', ...packages].map(each => manifestOf(each).name))
    expect(text).toMatch(new RegExp(`ok {4}npm would publish ${name}: \\d+ files`))
  expect(text).toMatch(/later the placeholder OWNER is replaced/)
  expect(text).toMatch(/nothing was published/)
  expect(status).toBe(0)
})

test.each([
  [
    'packages/nats/package.json',
    (text: string) => text.replace(/"version": ".*?"/, '"version": "9.9.9"'),
    /FAIL {2}the version is/,
  ],
  [
    'package.json',
    (text: string) => text.replace(/OWNER(.*)\/issues/, 'OTHER$1/issues'),
    /FAIL {2}one repository/,
  ],
  [
    'packages/cli/package.json',
    (text: string) => text.replace('"directory": "packages/cli"', '"directory": "packages/nats"'),
    /FAIL {2}one repository/,
  ],
  [
    'package.json',
    (text: string) => text.replace('"!dist/.built",', '"build",'),
    /FAIL {2}npm would publish sluice\n/,
  ],
  [
    'packages/cli/package.json',
    (text: string) => text.replace('dist/esm/sluice.js', 'dist/esm/absent.js'),
    /dist\/esm\/absent\.js is not in @sluice\/cli/,
  ],
  [
    'CHANGELOG.md',
    (text: string) => text.replace(/^## \[Unreleased\]$/m, '## Unreleased'),
    /FAIL {2}the changelog/,
  ],
  [
    'CHANGELOG.md',
    (text: string) =>
      `${text}\n## [0.1.0] - 2026-01-01\n\nOne.\n\n## [0.9.0] - 2026-01-01\n\nMore.\n`,
    /0\.1\.0 stands above 0\.9\.0/,
  ],
  [
    'packages/engine/CHANGELOG.md',
    (text: string) => `${text}\n## [0.1.0] - 2026-01-01\n\n`,
    /packages\/engine: 0\.1\.0 says nothing/,
  ],
])('a wrong %s is found (%#)', (path, edit, problem) => {
  const { status, text } = checkAfter({ [path]: edit })
  expect(text).toMatch(problem)
  expect(status).toBe(1)
})

test('tarballs of another build are found', () => {
  mkdirSync(join(folder, 'packed'))
  const tarball = join(folder, 'packed', `sluice-engine-${manifest.version}.tgz`)
  writeFileSync(tarball, 'of another build')
  const { status, text } = checkAfter({})
  rmSync(tarball)
  expect(text).toMatch(/packed\/sluice-engine-.* is not of this build: npm run pack/)
  expect(status).toBe(1)
})

test('a tag is held to the version, the changelogs and the repository', () => {
  const { status, text } = checkAfter({}, '--tag', 'v7.0.0')
  expect(status).toBe(1)
  expect(text).toMatch(/FAIL {2}the tag is that of the version/)
  expect(text).toMatch(/FAIL {2}the changelogs have this version/)
  expect(text).toMatch(/FAIL {2}the placeholder OWNER is replaced/)
  const named = (from: string) => from.replaceAll('/OWNER/', '/someone/')
  const released = (from: string) =>
    from
      .replace(/^## \[Unreleased\]$/m, `$&\n\n## [${manifest.version}] - 2026-01-01`)
      .replace(/^## \[0\.1\.0\] - (?!2026-01-01)[\s\S]*/m, '')
  const edits: Edits = Object.fromEntries(
    ['.', ...packages].flatMap(each => [
      [join(each, 'package.json'), named],
      [join(each, 'CHANGELOG.md'), released],
    ]),
  )
  const other = checkAfter(edits, '--tag', `v${manifest.version}`)
  expect(other.text).toMatch(/ok {4}the tag is that of the version/)
  expect(other.text).toMatch(/ok {4}the changelogs have this version/)
  expect(other.text).toMatch(/ok {4}the placeholder OWNER is replaced/)
})
