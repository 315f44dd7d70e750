import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'
import { read, root } from '../support/sources.js'

const folder = 'test/planted'
const faults = readdirSync(join(root, folder))
  .filter(file => file.endsWith('.patch'))
  .map(file => {
    const [head = '', ...diffs] = read(`${folder}/${file}`).split('\ndiff --git ')
    const [words = '', found = '', promise = ''] = head.split('\n')
    return { file, words, found, promise, diff: diffs.join('\n') }
  })
const places = faults.flatMap(({ diff }) =>
  [...diff.matchAll(/^\+\+\+ b\/(.*)$/gm)].map(([, path = '']) => path),
)

test('each fault says what is broken, and which tests of the first tier find it', () => {
  for (const { file, words, found } of faults) {
    expect([file, words]).toEqual([file, expect.stringMatching(/^\S.{15,110}\.$/)])
    const [, files = ''] = /^found by: (.+?)(?: \(built\))?$/.exec(found) ?? []
    for (const path of files.split(', ')) {
      expect([file, path]).toEqual([
        file,
        expect.stringMatching(/(?<!\.(full|nats|servers))\.test\.ts$/),
      ])
      expect([file, path, existsSync(join(root, path))]).toEqual([file, path, true])
    }
  }
})

test('each fault applies to the sources of today', async () => {
  for (const { file } of faults)
    await promisify(execFile)('git', ['apply', '--check', '-C1', join(root, folder, file)], {
      cwd: root,
    })
})

test('faults are in the product, and not in its tests', () => {
  expect(faults.length).toBeGreaterThanOrEqual(50)
  for (const path of places) {
    expect(path).not.toMatch(/(^|\/)test\//)
    expect([path, existsSync(join(root, path))]).toEqual([path, true])
  }
})

const plugins = readdirSync(join(root, 'plugins')).map(name => `plugins/${name}`)
const packages = readdirSync(join(root, 'packages')).map(name => `packages/${name}`)
const others = ['client/stream', 'client/request', 'plugins/verify/onchain', 'proof', 'testing']
const enclave = ['vault', 'enclave', 'audit'].map(name => `packages/confidential-http/${name}`)
test.each([...plugins, ...packages, ...others, ...enclave])('there is a fault in %s', part => {
  expect(places.some(path => path === part || path.startsWith(`${part}/`))).toBe(true)
})

const [, table = ''] = read('README.md').split('\n| promise | how |\n')
const promises = [
  ...table
    .split('\n\n', 1)
    .join()
    .matchAll(/^\| ([a-z ]+) \|/gm),
]
test('each promise of the README has a fault that breaks it', () => {
  const broken = faults.flatMap(({ promise }) => /^promise: (.+)$/.exec(promise)?.[1] ?? [])
  const wanted = promises.map(([, promise = '']) => promise)
  expect(wanted).toHaveLength(7)
  expect([...new Set(broken)].sort()).toEqual([...wanted].sort())
})
