import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { manifest, order, read, root } from '@sluice/test-support/sources.js'
import { runHere } from './support/cli.js'

const dockerfile = read('Dockerfile')
const compose = read('containers/compose.yaml')

/** The words of each command of the compose file that the image runs. */
const commands: readonly (readonly string[])[] = [
  ...compose.matchAll(/^ {4}command:\s*\[([^\]]+)\]$/gm),
].map(([, list = '']) =>
  list
    .split(',')
    .map(word => word.trim().replace(/^"|"$/g, ''))
    .filter(word => word !== ''),
)

describe('the image', () => {
  test('is built from all that the build reads', () => {
    const taken = read('.dockerignore').split('\n')
    const sources = order.filter(house => house !== 'examples')
    for (const path of [...sources, 'build', 'build.mjs', 'LICENSE', 'tsconfig.build.json'])
      expect(taken).toContain(`!${path}`)
    for (const line of taken.filter(each => each.startsWith('!')))
      expect([line, existsSync(join(root, line.slice(1)))]).toEqual([line, true])
  })

  test('has optional packages that this one takes', () => {
    const [, list = ''] = /npm install [^\\]*\\\n +([^\\]+) \\\n/.exec(dockerfile) ?? []
    const packages = list.split(' ')
    expect(packages).toContain('prom-client')
    expect(Object.keys(manifest.peerDependencies)).toEqual(expect.arrayContaining(packages))
  })

  test('ends as a user without rights, and asks for its health without a shell', () => {
    const [, last = ''] = dockerfile.split(/^FROM .*distroless.*$/m)
    expect(last).toMatch(/^USER 65532:65532$/m)
    expect(last).not.toMatch(/^RUN /m)
    const [, words = ''] = /HEALTHCHECK [^[]*(\[.*\])/.exec(last) ?? []
    expect(JSON.parse(words)).toHaveLength(3)
  })
})

describe('the compose file', () => {
  test('runs commands with options that there are', async () => {
    expect(commands.map(([name]) => name)).toEqual(['serve', 'record', 'monitor'])
    for (const [name = '', ...words] of commands) {
      const { out } = await runHere([name, '--help'])
      expect([name, out.startsWith(`Usage: sluice ${name} `)]).toEqual([name, true])
      for (const word of words.filter(each => each.startsWith('--')))
        expect([name, out]).toEqual([name, expect.stringContaining(word.replace(/=.*/, ' '))])
    }
  })

  test('mounts files that are there', () => {
    const files = [...compose.matchAll(/(?:- |:-)(\.\.?\/[\w./-]+)/g)].map(([, file = '']) => file)
    expect(files).toHaveLength(5)
    for (const file of files)
      expect([file, existsSync(join(root, 'containers', file))]).toEqual([file, true])
  })

  test('has the keys of the local engine', async () => {
    await using engine = await startDataEngine()
    const lines = read('containers/demo.env').split('\n')
    expect(lines).toContain(`API_KEY=${engine.apiKey}`)
    expect(lines).toContain(`USER_SECRET=${engine.userSecret}`)
    expect(compose).toContain(engine.feeds[0])
  })
})
