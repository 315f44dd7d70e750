import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { manifest, root } from '../support/sources.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-release-'))
afterAll(() => rmSync(folder, { recursive: true }))
for (const path of [
  'build',
  'package.json',
  'package-lock.json',
  'CHANGELOG.md',
  'README.md',
  'LICENSE',
])
  cpSync(join(root, path), join(folder, path), { recursive: true })
cpSync(join(root, 'dist'), join(folder, 'dist'), { recursive: true })
symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')

/** Runs the check after an edit of a file, which is taken back. */
function checkAfter(path: string, edit: (text: string) => string, ...args: string[]) {
  const file = join(folder, path)
  const text = readFileSync(file, 'utf8')
  writeFileSync(file, edit(text))
  const script = join(folder, 'build/check-release.mjs')
  const { stdout, stderr, status } = spawnSync(process.execPath, [script, ...args], {
    encoding: 'utf8',
    env: { ...process.env, GITHUB_REPOSITORY: 'someone/sluice' },
  })
  writeFileSync(file, text)
  return { status, text: stdout + stderr }
}

const same = (text: string): string => text

test('what is here could be published, and what a release lacks is named', () => {
  const { status, text } = checkAfter('package.json', same)
  expect(text).toMatch(/ok {4}npm would publish it: \d+ files/)
  expect(text).toMatch(/later the placeholder OWNER is replaced/)
  expect(text).toMatch(/nothing was published/)
  expect(status).toBe(0)
})

test.each([
  [
    'package.json',
    (text: string) => text.replace(/"version": ".*?"/, '"version": "9.9.9"'),
    /FAIL {2}the version is/,
  ],
  [
    'package.json',
    (text: string) => text.replace(/OWNER(.*)\/issues/, 'OTHER$1/issues'),
    /FAIL {2}one repository/,
  ],
  [
    'package.json',
    (text: string) => text.replace('"!dist/.built",', '"docs", "build",'),
    /FAIL {2}npm would publish/,
  ],
  [
    'CHANGELOG.md',
    (text: string) => text.replace(/^## \[0\.1\.0\] - .*$/m, '## 0.1.0'),
    /FAIL {2}the changelog/,
  ],
  [
    'CHANGELOG.md',
    (text: string) => `${text}\n## [0.9.0] - 2026-01-01\n\nMore.\n`,
    /0\.1\.0 stands above 0\.9\.0/,
  ],
])('a wrong %s is found (%#)', (path, edit, problem) => {
  const { status, text } = checkAfter(path, edit)
  expect(text).toMatch(problem)
  expect(status).toBe(1)
})

test('a tag is held to the version, the changelog and the repository', () => {
  const { status, text } = checkAfter('package.json', same, '--tag', 'v7.0.0')
  expect(status).toBe(1)
  expect(text).toMatch(/FAIL {2}the tag is that of the version/)
  expect(text).toMatch(/FAIL {2}the placeholder OWNER is replaced/)
  const named = (from: string) => from.replaceAll('/OWNER/', '/someone/')
  const other = checkAfter('package.json', named, '--tag', `v${manifest.version}`)
  expect(other.text).toMatch(/ok {4}the tag is that of the version/)
  expect(other.text).toMatch(/ok {4}the placeholder OWNER is replaced/)
})
