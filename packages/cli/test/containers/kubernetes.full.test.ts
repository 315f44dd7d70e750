// Holds the manifests to the schemas and the types of Kubernetes. They are in the package
// kubernetes-models, which is installed for this test: it has 30 MB.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { root } from '@sluice/test-support/sources.js'
import { parseAllDocuments } from 'yaml'

interface Manifest {
  readonly apiVersion: string
  readonly kind: string
}

const folder = mkdtempSync(join(tmpdir(), 'sluice-kubernetes-'))
afterAll(() => rmSync(folder, { recursive: true }))
beforeAll(() => {
  writeFileSync(join(folder, 'package.json'), '{}')
  const options = ['--no-audit', '--no-fund', '--ignore-scripts']
  execFileSync('npm', ['install', ...options, 'kubernetes-models@4.5.1'], { cwd: folder })
}, 120_000)

const manifests = parseAllDocuments(
  readFileSync(join(__dirname, '../../containers/kubernetes.yaml'), 'utf8'),
).map(document => document.toJS() as Manifest)

/** What the schema of its kind says of a manifest: required fields, types, values. */
function rejected(manifest: Manifest): string | undefined {
  const { apiVersion, kind } = manifest
  const models = createRequire(join(folder, 'package.json'))(`kubernetes-models/${apiVersion}`)
  try {
    new models[kind](manifest).validate()
    return undefined
  } catch (thrown) {
    return (thrown as Error).message
  }
}

/** What the compiler says of a manifest by the type of its kind, which allows no other fields. */
function mistyped(all: readonly Manifest[]): string {
  const lines = all.map(
    (manifest, at) =>
      `export const m${at}: import('kubernetes-models/${manifest.apiVersion}').I${manifest.kind} = ${JSON.stringify(manifest)}`,
  )
  writeFileSync(join(folder, 'manifests.ts'), lines.join('\n'))
  const compilerOptions = { noEmit: true, strict: true, skipLibCheck: true, types: [] }
  const settings = { compilerOptions: { ...compilerOptions, module: 'nodenext' } }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(settings))
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  return spawnSync(process.execPath, [tsc, '--pretty', 'false'], { cwd: folder, encoding: 'utf8' })
    .stdout
}

test('each manifest is one of Kubernetes', () => {
  expect(manifests.length).toBeGreaterThan(8)
  for (const manifest of manifests)
    expect([manifest.kind, rejected(manifest)]).toEqual([manifest.kind, undefined])
  expect(mistyped(manifests)).toBe('')
})

test('a wrong value and an unknown field are found', () => {
  const [set] = manifests.filter(({ kind }) => kind === 'StatefulSet')
  const change = (from: string, to: string) => JSON.parse(JSON.stringify(set).replace(from, to))
  expect(rejected(change('"replicas":2', '"replicas":"2"'))).toMatch(/replicas must be integer/)
  expect(rejected(change('"selector":', '"chosen":'))).toMatch(
    /must have required property selector/,
  )
  expect(mistyped([change('"readinessProbe"', '"readyProbe"')])).toMatch(
    /readyProbe"' does not exist/,
  )
})
