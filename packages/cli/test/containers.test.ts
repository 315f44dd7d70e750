import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { manifest, manifestOf, order, packages, read, root } from '@sluice/test-support/sources.js'
import { runHere } from './support/cli.js'

const folder = join(__dirname, '../containers')
const dockerfile = read('Dockerfile')
const compose = readFileSync(join(folder, 'compose.yaml'), 'utf8')

/** The words of each command of the compose file that the image runs. */
const commands: readonly (readonly string[])[] = [
  ...compose.matchAll(/^ {4}command:\s*\[([^\]]+)\]$/gm),
]
  .map(([, list = '']) =>
    list
      .split(',')
      .map(word => word.trim().replace(/^"|"$/g, ''))
      .filter(word => word !== ''),
  )
  // That of NATS begins with an option.
  .filter(([name = '']) => !name.startsWith('-'))

describe('the image', () => {
  test('is built from all that the build reads', () => {
    const taken = read('.dockerignore').split('\n')
    const sources = order.filter(house => house !== 'examples' && !packages.includes(house))
    const others = ['packages', 'build', 'build.mjs', 'LICENSE', 'tsconfig.build.json']
    for (const path of [...sources, ...others]) expect(taken).toContain(`!${path}`)
    for (const line of taken.filter(each => each.startsWith('!')))
      expect([line, existsSync(join(root, line.slice(1)))]).toEqual([line, true])
  })

  test('has every workspace before it installs, and every package of ours as a folder', () => {
    const [before = '', after = ''] = dockerfile.split('RUN npm ci ')
    for (const workspace of [...packages, 'test/support'])
      expect(before).toContain(`COPY ${workspace}/package.json ${workspace}/\n`)
    const [, names = ''] = /for name in (.+); do/.exec(after) ?? []
    // It makes projects, and no container runs it.
    const taken = packages.filter(each => each !== 'packages/create-sluice')
    expect(names.split(' ').map(name => `packages/${name}`)).toEqual(taken)
  })

  test('starts the command that its package has', () => {
    const { name, bin } = manifestOf('packages/cli') as ReturnType<typeof manifestOf> & {
      readonly bin: Readonly<Record<string, string>>
    }
    const [, words = ''] = /^ENTRYPOINT (\[.*\])$/m.exec(dockerfile) ?? []
    const program = `/app/node_modules/${name}/${bin.sluice}`
    expect(JSON.parse(words)).toEqual(['/nodejs/bin/node', program])
  })

  test('has optional packages that ours take', () => {
    const [, list = ''] = /npm install [^\\]*\\\n +([^\\]+) \\\n/.exec(dockerfile) ?? []
    const taken = list.split(' ')
    expect(taken).toContain('prom-client')
    const { peerDependencies } = manifestOf('packages/cli')
    const peers = Object.keys({ ...manifest.peerDependencies, ...peerDependencies })
    expect(peers).toEqual(expect.arrayContaining(taken))
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
    expect(commands.map(([name]) => name)).toEqual(['serve', 'record', 'monitor', 'relay', 'relay'])
    for (const [name = '', ...words] of commands) {
      const { out } = await runHere([name, '--help'])
      expect([name, out.startsWith(`Usage: sluice ${name} `)]).toEqual([name, true])
      for (const word of words.filter(each => each.startsWith('--')))
        expect([name, out]).toEqual([name, expect.stringContaining(word.replace(/=.*/, ' '))])
    }
  })

  test('mounts files that are there', () => {
    const files = [...compose.matchAll(/(?:- |:-)(\.\.?\/[\w./-]+)/g)].map(([, file = '']) => file)
    expect(files).toHaveLength(10)
    for (const file of files) expect([file, existsSync(join(folder, file))]).toEqual([file, true])
  })

  test('builds from the root of the repository', () => {
    const [, context = ''] = /^ {2}build: (.+)$/m.exec(compose) ?? []
    expect(join(folder, context, 'Dockerfile')).toBe(join(root, 'Dockerfile'))
  })

  test('has the keys of the local engine', async () => {
    await using engine = await startDataEngine()
    const lines = readFileSync(join(folder, 'demo.env'), 'utf8').split('\n')
    expect(lines).toContain(`API_KEY=${engine.apiKey}`)
    expect(lines).toContain(`USER_SECRET=${engine.userSecret}`)
    expect(compose).toContain(engine.feeds[0])
  })
})
