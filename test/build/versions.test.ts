import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { manifest, packages, root } from '../support/sources.js'

const files = [
  'package.json',
  'package-lock.json',
  'core/version.ts',
  'build/packages.mjs',
  ...packages.map(folder => `${folder}/package.json`),
]

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-versions-'))
  for (const path of files) cpSync(join(root, path), join(folder, path))
})
afterEach(() => rmSync(folder, { recursive: true }))

const read = (path: string): string => readFileSync(join(folder, path), 'utf8')

function run(...args: string[]) {
  const program = join(folder, 'build/packages.mjs')
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    encoding: 'utf8',
  })
  return { status, text: stdout + stderr }
}

/** Edits a file, and says what the check finds. */
function checkAfter(path: string, from: string | RegExp, to: string) {
  const text = read(path)
  const edited = text.replace(from, to)
  expect(edited).not.toBe(text)
  writeFileSync(join(folder, path), edited)
  return run('--check')
}

test('nothing here asks for a version of ours that is not here', () => {
  expect(run('--check')).toEqual({ status: 0, text: '' })
})

describe('version:set', () => {
  test('sets the version of all, and of what they ask of each other, and nothing else', () => {
    const { version } = manifest
    const before = new Map(files.map(path => [path, read(path)]))
    expect(run('7.8.9').status).toBe(0)
    expect(run('--check')).toEqual({ status: 0, text: '' })
    for (const path of files.slice(0, 3).concat(files.slice(4)))
      expect(read(path)).toContain('7.8.9')
    expect(JSON.parse(read('packages/cli/package.json')).dependencies).toMatchObject({
      sluice: '7.8.9',
      '@sluice/engine': '7.8.9',
      '@sluice/confidential-http': '7.8.9',
      '@sluice/nats': '7.8.9',
    })
    expect(JSON.parse(read('package.json')).devDependencies).toMatchObject({
      sluice: 'file:.',
      '@sluice/cli': '7.8.9',
    })
    expect(run(version).status).toBe(0)
    for (const [path, text] of before) expect([path, read(path)]).toEqual([path, text])
  })

  test.each([[], ['1.2'], ['v1.2.3'], ['^1.2.3'], ['01.2.3'], ['1.2.3-01'], ['1.2.3', '1.2.4']])(
    'refuses %s',
    (...args) => {
      expect(run(...args)).toEqual({ status: 2, text: 'usage: npm run version:set -- 1.2.3\n' })
    },
  )

  test('takes a version that is not final', () => {
    expect(run('2.0.0-rc.1').status).toBe(0)
    expect(read('core/version.ts')).toContain("VERSION = '2.0.0-rc.1'")
  })
})

describe('the check finds', () => {
  const cli = 'packages/cli/package.json'
  test.each([
    [cli, /"version": ".*?"/, '"version": "9.9.9"', `${cli}: the version is 9.9.9`],
    ['core/version.ts', /'.*'/, "'9.9.9'", 'core/version.ts: the version is 9.9.9'],
    [cli, /"sluice": "0/, '"sluice": "^9', `${cli}: dependencies asks for sluice ^9`],
    [cli, /"sluice": "0.*"/, '"sluice": "*"', `${cli}: dependencies asks for sluice *`],
    [cli, '"picocolors"', '"@sluice/other"', 'has @sluice/other, which is not here'],
    [cli, '"picocolors"', '"@sluice/test-support"', 'has @sluice/test-support, which is not here'],
    [
      'packages/nats/package.json',
      /"sluice": ".*"/,
      '"sluice": "^0.0.1"',
      'packages/nats/package.json: peerDependencies asks for sluice ^0.0.1',
    ],
    [
      'package.json',
      /"@sluice\/cli": ".*"/,
      '"@sluice/cli": "^0.0.1"',
      'package.json: devDependencies asks for @sluice/cli ^0.0.1',
    ],
    [
      'package-lock.json',
      /"node_modules\/sluice": \{[^}]*\}/,
      '"node_modules/sluice": { "version": "0.1.0" }',
      'package-lock.json: node_modules/sluice is no link',
    ],
    [
      'package-lock.json',
      '"node_modules/axe-core"',
      '"packages/cli/node_modules/@sluice/nats"',
      'packages/cli/node_modules/@sluice/nats is no link',
    ],
  ])('in %s a %s that is %s', (path, from, to, problem) => {
    const { status, text } = checkAfter(path, from, to)
    expect(text).toContain(problem)
    expect(status).toBe(1)
  })
})
