import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from '@jest/globals'
import { root } from '../support/sources.js'

const read = (path: string): string => readFileSync(join(__dirname, 'sides', path), 'utf8')

/** Builds both sisters in a process with this PATH, and returns what it printed. */
function build(path: string): string {
  const file = JSON.stringify(pathToFileURL(join(__dirname, 'sisters.mjs')).href)
  const code = `
    const { buildSisters, sisterNames } = await import(${file})
    const built = buildSisters(sisterNames, (name, reason) => console.log(name, reason))
    console.log(JSON.stringify(built))`
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
    encoding: 'utf8',
    timeout: 10_000,
    env: { ...process.env, PATH: path },
  })
  return stdout
}

test('a sister whose language is not there is left out, with the reason', () => {
  expect(build('')).toBe('go there is no go here\nrust there is no cargo here\n{}\n')
})

test('the sisters take their SDKs from the registries of their languages, at the versions that the page names', () => {
  const manifest = read('rust/Cargo.toml')
  // A source of its own, or a range of versions, would be no exact string.
  expect(manifest).not.toMatch(/\[(patch|replace|source|registries)/)
  const [rust] = ['chainlink-data-streams-sdk', 'chainlink-data-streams-report'].map(name => {
    const [, version] = new RegExp(`^${name} = "=([\\d.]+)"$`, 'm').exec(manifest) ?? []
    expect(version).toBeDefined()
    return version
  })
  const [, go] = /data-streams-sdk\/go v(\S+)/.exec(read('go/go.mod')) ?? []
  expect(read('go/go.sum')).toContain(`data-streams-sdk/go v${go} h1:`)
  expect(read('go/go.mod')).not.toContain('replace')
  const page = readFileSync(join(root, 'docs', 'records', 'performance.md'), 'utf8')
  expect(page).toContain(`SDKs for Go (${go}) and Rust (${rust})`)
})
