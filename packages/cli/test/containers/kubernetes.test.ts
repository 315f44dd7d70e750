import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { parseAllDocuments } from 'yaml'
import { runHere } from '../support/cli.js'

const text = readFileSync(join(__dirname, '../../containers/kubernetes.yaml'), 'utf8')

interface Container {
  readonly args: readonly string[]
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
  readonly securityContext: object
  readonly resources: { readonly requests: object; readonly limits: object }
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
  readonly [probe: `${string}Probe`]: { readonly httpGet: { path: string; port: string } }
}
interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> }
    readonly podSelector: { readonly matchLabels: Readonly<Record<string, string>> }
    readonly template: {
      readonly metadata: {
        readonly labels: object
        readonly annotations: Readonly<Record<string, string>>
      }
      readonly spec: {
        readonly containers: readonly Container[]
        readonly securityContext: object
        readonly terminationGracePeriodSeconds: number
        readonly volumes: readonly { readonly name: string }[]
      }
    }
  }
}
const manifests = parseAllDocuments(text).map(document => {
  expect([document.errors, document.warnings]).toEqual([[], []])
  return document.toJS() as Manifest
})
const named = (kind: string) =>
  manifests.filter(each => each.kind === kind).map(each => each.metadata.name)
const workloads = manifests.filter(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment')
const containers = workloads.flatMap(({ spec }) => spec.template.spec.containers)

test('has two relays with names that stay, and gateways', () => {
  expect(named('StatefulSet')).toEqual(['sluice-relay'])
  expect(named('Deployment')).toEqual(['sluice-gateway'])
  expect(named('PodDisruptionBudget')).toEqual(['sluice-relay', 'sluice-gateway'])
  expect(named('NetworkPolicy')).toEqual(['sluice-relay', 'sluice-gateway'])
  expect(workloads.map(({ spec }) => (spec as { replicas?: number }).replicas)).toEqual([2, 2])
  expect(containers[0]?.args).toContain('--name=$(POD_NAME)')
})

test('runs the command with options that there are', async () => {
  const { out } = await runHere(['relay', '--help'])
  for (const { args } of containers) {
    expect(args[0]).toBe('relay')
    for (const word of args.slice(1))
      expect(out).toMatch(new RegExp(`${word.replace(/=.*/, '')}[ \n]`))
  }
})

test('has no secret in it, and mounts secrets for the user of the image alone', () => {
  expect(named('Secret')).toEqual([])
  expect(text).not.toMatch(/(API_KEY|USER_SECRET|NATS_PASSWORD|NATS_NKEY_SEED)[=:] *\S/)
  for (const { spec } of workloads)
    expect(spec.template.spec.volumes).toContainEqual({
      name: 'secrets',
      // In octal 0440.
      secret: {
        secretName: spec.selector.matchLabels['app.kubernetes.io/name'],
        defaultMode: 0o440,
      },
    })
})

test('reads and writes only what is mounted', () => {
  for (const { spec } of workloads) {
    const volumes = spec.template.spec.volumes.map(({ name }) => name)
    for (const { args, volumeMounts } of spec.template.spec.containers) {
      expect(volumeMounts.map(({ name }) => name)).toEqual(volumes)
      for (const path of args.flatMap(word => /=@?(\/.+)/.exec(word)?.[1] ?? []))
        expect(volumeMounts.some(({ mountPath }) => path.startsWith(`${mountPath}/`))).toBe(true)
    }
  }
})

test('runs without rights', () => {
  for (const { spec } of workloads)
    expect(spec.template.spec.securityContext).toEqual({
      ...{ runAsNonRoot: true, runAsUser: 65_532, runAsGroup: 65_532, fsGroup: 65_532 },
      seccompProfile: { type: 'RuntimeDefault' },
    })
  for (const { securityContext } of containers)
    expect(securityContext).toEqual({
      ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
      capabilities: { drop: ['ALL'] },
    })
})

test('is asked for its health where it serves it, and scraped there', () => {
  for (const { args, ports, ...probes } of containers) {
    expect(args).toContain('--metrics=0.0.0.0:9464')
    expect(ports).toContainEqual({ name: 'metrics', containerPort: 9464 })
    for (const probe of ['startupProbe', 'livenessProbe'] as const)
      expect(probes[probe]?.httpGet).toEqual({ path: '/live', port: 'metrics' })
    expect(probes.readinessProbe?.httpGet).toEqual({ path: '/ready', port: 'metrics' })
  }
  for (const { spec } of workloads)
    expect(spec.template.metadata.annotations).toEqual({
      ...{ 'prometheus.io/scrape': 'true', 'prometheus.io/port': '9464' },
      'prometheus.io/path': '/metrics',
    })
})

test('selects the pods that it makes', () => {
  for (const { kind, spec, metadata } of manifests) {
    const selector = spec?.selector?.matchLabels ?? spec?.podSelector?.matchLabels ?? spec?.selector
    if (selector === undefined) expect(kind).toBe('ConfigMap')
    else expect(selector).toEqual({ 'app.kubernetes.io/name': metadata.name })
  }
  for (const { spec } of workloads)
    expect(spec.template.metadata.labels).toMatchObject(spec.selector.matchLabels)
})
