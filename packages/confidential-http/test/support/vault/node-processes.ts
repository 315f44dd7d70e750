import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach } from '@jest/globals'
import { createKeys } from 'sluice/internal'
import type { NodeAddress } from '../../../vault/manifest.js'
import { openVault } from '../../../vault/open-vault.js'
import type { NodeTrust } from '../../../vault/process/node-files.js'
import { startVaultNode, type VaultNodeOptions } from '../../../vault/process/start-node.js'
import type { Vault } from '../../../vault/vault.js'
import { place, vault } from './vault.js'

/** Whom the nodes know as a caller. */
export const caller: ReturnType<typeof createKeys> = createKeys()
/** Starts a node that ends with the test. */
export async function startNode(options: VaultNodeOptions): ReturnType<typeof startVaultNode> {
  const node = await startVaultNode(options)
  running.push(node)
  return node
}

const running: { close(): Promise<void> }[] = []
afterEach(async () => {
  await Promise.all(running.splice(0).map(each => each.close()))
})

/** A node that can be stopped and started anew. */
export interface Node extends NodeAddress {
  readonly directory: string
  readonly logged: readonly string[]
  stop(): Promise<void>
  start(): Promise<void>
}

/** Starts nodes that trust each other. */
export async function startNodes(count: number, writer: string): Promise<Node[]> {
  const made = await Promise.all(
    Array.from({ length: count }, async () => {
      const directory = place()
      const trust = { writer, callers: [caller.publicKey] }
      const logged: string[] = []
      const log = { info: (line: string) => void logged.push(line) }
      const first = await startNode({ directory, trust, log })
      const port = Number(new URL(first.url).port)
      let node = first
      return {
        ...{ url: first.url, key: first.publicKey, directory, logged },
        stop: () => node.close(),
        async start() {
          node = await startNode({ directory, port })
        },
      }
    }),
  )
  introduce(made)
  return made
}

export const trustOf = (directory: string): NodeTrust =>
  JSON.parse(readFileSync(join(directory, 'node.json'), 'utf8'))

/** Changes the file of a node, as its operator does. */
export function trust(
  directory: string,
  changed: { readonly [Name in keyof NodeTrust]?: NodeTrust[Name] | undefined },
): void {
  const text = JSON.stringify({ ...trustOf(directory), ...changed })
  writeFileSync(join(directory, 'node.json'), text)
}

/** Makes nodes each other's peers. */
export function introduce(nodes: readonly Node[]): void {
  for (const { directory } of nodes) trust(directory, { peers: nodes.map(({ key }) => key) })
}

export const addressesOf = (nodes: readonly Node[]): NodeAddress[] =>
  nodes.map(({ url, key }) => ({ url, key }))
/** Opens the vault as the caller that the nodes know. */
export const open = (): Promise<Vault> =>
  openVault(vault.directory, { callerSecretKey: caller.secretKey })
export const sharesOf = ({ directory }: Node): string[] => readdirSync(join(directory, 'shares'))
