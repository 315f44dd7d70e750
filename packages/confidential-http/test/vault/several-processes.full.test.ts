import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import { built } from '@sluice/test-support/files.js'
import { at, nameOf, OWNER, storedValue, vault } from '../support/vault/vault.js'

/** The files of the versions of a secret; those that are removed meanwhile are left out. */
function readVersions(): string[] {
  const folder = at('secrets', OWNER, 'main')
  const files = readdirSync(folder).filter(file => /^key\.[0-9a-f]+\.json$/.test(file))
  return files.flatMap(file => {
    try {
      return [readFileSync(join(folder, file), 'utf8')]
    } catch {
      return []
    }
  })
}

describe('several processes', () => {
  const library = built('cjs/vault/index.js', 'confidential-http')
  const children = new Set<ChildProcess>()
  afterEach(() => {
    for (const each of children) each.kill('SIGKILL')
    children.clear()
  })
  const child = (program: string) => {
    const source = `const { openVault } = require(${JSON.stringify(library)});
      (async () => { const vault = await openVault(${JSON.stringify(vault.directory)}); ${program} })()
        .catch(error => { console.error(error); process.exitCode = 1 })`
    const running = spawn(process.execPath, ['-e', source], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    children.add(running)
    const ended = new Promise<number | null>(resolve => running.once('close', resolve))
    const started = Promise.race([
      new Promise(resolve => running.stdout.once('data', resolve)),
      ended.then(code => Promise.reject(new Error(`the process ended with ${code} at its start`))),
    ])
    started.catch(() => undefined)
    return { running, ended, started }
  }

  test('put at once, and every secret is whole', async () => {
    const putting = [0, 1, 2, 3].map(i =>
      child(`for (let j = 0; j < 5; j++) {
        await vault.put({ key: 'shared' }, 'shared by ${i}', { policy: 'anywhere' })
        await vault.put({ key: 'own_${i}_' + j }, 'own ${i} ' + j, { policy: 'anywhere' })
      }`),
    )
    expect(await Promise.all(putting.map(each => each.ended))).toEqual([0, 0, 0, 0])
    const names = await vault.list()
    expect(names).toHaveLength(21)
    for (const name of names) {
      const value = await storedValue(vault, name)
      if (name.key === 'shared') expect(value).toMatch(/^shared by \d$/)
      else expect(value).toBe(name.key.replaceAll('_', ' '))
    }
  })

  test('are killed while they put, and the secret is the old one or the new one', async () => {
    const [old, fresh] = ['old '.repeat(250), 'new '.repeat(250)]
    await vault.put({ key: 'key' }, old, { policy: 'anywhere' })
    for (let round = 0; round < 8; round++) {
      const { running, ended, started } = child(`
        for (let i = 0; ; i++) {
          await vault.put({ key: 'key' }, (i % 2 ? 'old ' : 'new ').repeat(250), { policy: 'anywhere' })
          if (i === 0) process.stdout.write('started')
        }`)
      await started
      // A concurrent reader sees no partial file either.
      const end = performance.now() + Math.random() * 60
      while (performance.now() < end) {
        for (const text of readVersions())
          expect(JSON.parse(text)).toMatchObject({ key: 'key', ciphertext: expect.any(String) })
      }
      running.kill('SIGKILL')
      await ended
      const value = await storedValue(vault, nameOf('key'))
      expect([old, fresh]).toContain(value)
      expect(await vault.list()).toMatchObject([nameOf('key')])
    }
    await vault.put({ key: 'key' }, 'after', { policy: 'anywhere' })
    expect(await storedValue(vault, nameOf('key'))).toBe('after')
  })
})
