// Publishes small packages of our names with npm itself, to a registry on loopback.
import { execFile, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { root } from '../support/sources.js'

const names = [
  'sluice',
  '@sluice/engine',
  '@sluice/confidential-http',
  '@sluice/nats',
  '@sluice/cli',
  'create-sluice',
]
const work = mkdtempSync(join(tmpdir(), 'sluice-publish-'))

interface Document {
  readonly name: string
  readonly 'dist-tags': Record<string, string>
  readonly versions: Record<string, { readonly dist: { readonly integrity: string } }>
}

/** What is published, in the order in which it came. */
let published: string[] = []
const documents = new Map<string, Document>()
/** The name that the registry refuses. */
let refused = ''

const registry = createServer(async (request, response) => {
  const name = decodeURIComponent((request.url ?? '').slice(1))
  let body = ''
  for await (const chunk of request) body += chunk
  const known = documents.get(name)
  if (request.method === 'GET' && known !== undefined) response.end(JSON.stringify(known))
  else if (request.method === 'PUT' && name !== refused) {
    const sent: Document = JSON.parse(body)
    documents.set(name, { ...sent, versions: { ...known?.versions, ...sent.versions } })
    published.push(...Object.keys(sent.versions).map(version => `${name}@${version}`))
    response.writeHead(201).end('{}')
  } else response.writeHead(request.method === 'PUT' ? 403 : 404).end('{"error":"no"}')
})
beforeAll(async () => {
  registry.listen(0, '127.0.0.1')
  await once(registry, 'listening')
  const { port } = registry.address() as AddressInfo
  const host = `127.0.0.1:${port}`
  const settings = [`registry=http://${host}/`, `//${host}/:_authToken=a-token`, 'fetch-retries=0']
  writeFileSync(join(work, 'npmrc'), settings.join('\n'))
})
/** Without what `npm run` says of its registry. */
const env = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^npm_config_/i.test(name)),
  ),
  npm_config_userconfig: join(work, 'npmrc'),
}

/** A folder of tarballs of one version; `last` is what the package.json of the last has besides. */
function packAll(version: string, last: object = {}): string {
  const folder = mkdtempSync(join(work, 'packed-'))
  const sources = names.map(name => {
    const source = join(folder, name.replace('/', '-'))
    mkdirSync(source)
    const more = name === names.at(-1) ? last : {}
    writeFileSync(join(source, 'package.json'), JSON.stringify({ name, version, ...more }))
    return source
  })
  spawnSync('npm', ['pack', ...sources, '--pack-destination', folder], { cwd: folder })
  return folder
}

const first = packAll('1.0.0')

function publish(folder: string): Promise<{ code: unknown; text: string }> {
  const program = join(root, 'build/publish.mjs')
  return new Promise(resolve => {
    execFile(process.execPath, [program, folder], { env }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, text: stdout + stderr }),
    )
  })
}

beforeEach(() => {
  documents.clear()
  published = []
  refused = ''
})
afterAll(() => {
  registry.close()
  rmSync(work, { recursive: true })
})

const all = names.map(name => `${name}@1.0.0`)

test('all are published, none before what it asks for, as they were packed', async () => {
  expect(await publish(first)).toEqual({
    code: 0,
    text: all.map(each => `${each} published\n`).join(''),
  })
  expect(published).toEqual(all)
  expect(documents.get('sluice')?.['dist-tags']).toEqual({ latest: '1.0.0' })
})

test('a run that was cut short is repeated for what is missing', async () => {
  refused = '@sluice/nats'
  const { code, text } = await publish(first)
  expect(code).toBe(1)
  expect(text).toMatch(/403/)
  expect(published).toEqual(all.slice(0, 3))
  refused = ''
  expect((await publish(first)).text).toMatch(
    /engine@1\.0\.0 was there already[\s\S]*cli@1\.0\.0 pub/,
  )
  expect(published).toEqual(all)
})

test('nothing is published where a version is there with other contents', async () => {
  await publish(first)
  documents.delete('sluice')
  published = []
  const { code, text } = await publish(packAll('1.0.0', { description: 'another' }))
  expect(code).toBe(1)
  expect(text).toMatch(/create-sluice@1\.0\.0 is published already, with other contents/)
  expect(published).toEqual([])
})

test('nothing is published where npm would refuse one', async () => {
  await publish(packAll('3.0.0'))
  for (const name of names.slice(0, -1)) documents.delete(name)
  published = []
  const { code, text } = await publish(first)
  expect(code).toBe(1)
  expect(text).toMatch(/3\.0\.0 is higher/)
  expect(published).toEqual([])
})

test('nothing is published where one is missing, or of another version', async () => {
  const folder = packAll('1.0.0')
  rmSync(join(folder, 'sluice-cli-1.0.0.tgz'))
  expect((await publish(folder)).text).toMatch(/has not one tarball of each/)
  const later = packAll('1.1.0')
  copyFileSync(join(later, 'sluice-cli-1.1.0.tgz'), join(folder, 'sluice-cli-1.1.0.tgz'))
  expect((await publish(folder)).text).toMatch(/has not one tarball of each/)
  expect(published).toEqual([])
})

test('a version that is not final is not what npm installs', async () => {
  expect((await publish(packAll('2.0.0-rc.1'))).code).toBe(0)
  expect(documents.get('sluice')?.['dist-tags']).toEqual({ next: '2.0.0-rc.1' })
})
