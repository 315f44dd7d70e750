import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { transformSync } from 'esbuild'
import { root } from '../support/sources.js'
import { blocks, programOf } from './blocks.js'
import type { Block } from './pages.js'

/** Where the programs leave their files. */
const folder = mkdtempSync(join(tmpdir(), 'sluice-docs-'))
const children = new Set<ChildProcess>()
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

function run(
  path: string,
  words: readonly string[] = [],
): Promise<{ code: number | null; out: string }> {
  return new Promise(resolve => {
    // A folder of its own: some write files.
    const child = spawn(process.execPath, [path, ...words], {
      cwd: mkdtempSync(join(folder, 'run-')),
    })
    let out = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', chunk => {
        out += chunk
      })
    }
    children.add(child)
    child.on('close', code => {
      children.delete(child)
      resolve({ code, out })
    })
  })
}

function compile(name: string, source: string): string {
  const out = join(root, 'examples/.out')
  mkdirSync(out, { recursive: true })
  const path = join(out, `${name}.mjs`)
  writeFileSync(path, transformSync(source, { loader: 'ts', format: 'esm', target: 'node20' }).code)
  return path
}

/** A block that is a test of jest. */
const isTest = ({ code }: Block): boolean => code.includes("from '@jest/globals'")

describe('every block that is a test passes', () => {
  const project: object = require('../../jest.config.cjs')
  test.concurrent.each(blocks.filter(isTest).map(block => [block.at, block] as const))(
    '%s',
    async (at, block) => {
      const path = join(root, 'examples/.out', `block-${at.replace(/\W/g, '-')}.test.ts`)
      mkdirSync(join(root, 'examples/.out'), { recursive: true })
      writeFileSync(path, programOf(block))
      const config = { ...project, rootDir: root, testRegex: [`/${basename(path)}$`] }
      const jest = join(root, 'node_modules/jest/bin/jest.js')
      const { code, out } = await run(jest, ['--config', JSON.stringify(config)])
      rmSync(path)
      expect(out).toMatch(/^Tests: +\d+ passed, /m)
      expect(code).toBe(0)
    },
  )
})

describe('every block runs', () => {
  const programs = blocks.filter(block => !isTest(block))
  test.concurrent.each(programs.map(block => [block.at, block] as const))(
    '%s',
    async (at, block) => {
      const { code, out } = await run(compile(`block-${at.replace(/\W/g, '-')}`, programOf(block)))
      expect(out).not.toMatch(/Error|\n {4}at /)
      expect(code).toBe(0)
      // What it says that it prints, where that is the whole comment.
      for (const [, said = ''] of block.code.matchAll(
        /console\.log\(.*\) \/\/ (true|\d+( \[\])?)$/gm,
      ))
        expect(out.split('\n')).toContain(said)
      if (block.code.includes('startFaultProxy(')) expect(out).toMatch(/^reset at frame 5$/m)
    },
  )
})

describe('every example runs', () => {
  const expected = {
    'default-preset': /accepted: 6,[\s\S]*malformed: 0/,
    'custom-stack': /├ lag {11}report[\s\S]*price \d{20}/,
    'third-party-decoder':
      /price: 3141500000000000000n,\n {2}halted: true,\n {2}updatedAt: 1753900000123456789n/,
    'confidential-local': /ok true, 42 encrypted bytes\n\{"known":true\}/,
    'confidential-remote': /\{ known: true \}/,
    'verify-onchain':
      /(3 of 3 signatures, 0x\w{64}\n){3}the node was asked 7 times\nrejected: unknown-digest/,
    'third-party-logger': /listFeeds succeeded[\s\S]*warn: 1/,
  }
  test.concurrent.each(Object.entries(expected))('%s', async (name, output) => {
    const { code, out } = await run(
      compile(name, readFileSync(join(root, 'examples', `${name}.ts`), 'utf8')),
    )
    expect(out).toMatch(output)
    expect(code).toBe(0)
  })
})
