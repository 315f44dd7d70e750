import { type ChildProcess, fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { encodeDeployData, encodeFunctionData, type Hex, parseAbi } from 'viem'
import type { SignerSet } from '../../../plugins/verify/options.js'

const abi = parseAbi([
  'constructor(address proxy)',
  'function setConfig(bytes32 configDigest, address[] signers, uint8 f)',
  'function updateConfig(bytes32 configDigest, address[] old, address[] signers, uint8 f)',
  'function setActive(bytes32 configDigest, bool isActive)',
  'function unsetVerifier(bytes32 configDigest)',
])

type Contract = 'VerifierProxy' | 'Verifier' | 'OldVerifier' | 'DestinationVerifierProxy'

const contracts: Readonly<Record<Contract, Hex>> = JSON.parse(
  readFileSync(join(__dirname, 'verifier.json'), 'utf8'),
)

/** An error as a node sends it. */
export interface RPCError {
  readonly code: number
  readonly message: string
  readonly data?: string
}

/** Answers a request of a client: `next` asks the chain. Throws an RPCError, or the number of an HTTP status. */
export type Answer = (
  method: string,
  params: readonly unknown[],
  next: () => Promise<unknown>,
) => Promise<unknown> | unknown

/** A node of a chain: an HTTP server that speaks JSON-RPC. */
export interface TestNode {
  readonly url: string
  /** The methods that it was asked. */
  readonly asked: string[]
  close(): Promise<void>
}

/** A chain with the verifier contracts, in a process of its own. */
export interface Chain {
  readonly proxy: Hex
  readonly verifier: Hex
  ask(method: string, ...params: readonly unknown[]): Promise<unknown>
  deploy(name: Contract, proxy?: Hex): Promise<Hex>
  setConfig(set: SignerSet, verifier?: Hex): Promise<void>
  updateConfig(configDigest: string, old: SignerSet, next: SignerSet): Promise<void>
  setActive(configDigest: string, isActive: boolean): Promise<void>
  unsetVerifier(configDigest: string): Promise<void>
  mine(blocks: number): Promise<void>
  startNode(answer?: Answer): Promise<TestNode>
  close(): void
}

const hexes = (list: readonly string[]): Hex[] => list.map(each => each as Hex)

/** Starts a chain. With a parent, contracts see the block numbers of that, as on Arbitrum. */
export async function startChain({
  parent = false,
}: {
  readonly parent?: boolean
} = {}): Promise<Chain> {
  const child = fork(join(__dirname, 'evm.mjs'), { execArgv: [] })
  await new Promise<void>((resolve, reject) => {
    child.once('message', () => resolve())
    child.once('exit', code => reject(new Error(`the chain ended with ${code}`)))
  })
  const ask = createAsk(child)
  await ask('test_useParent', parent)
  const deploy: Chain['deploy'] = async (name, proxy) => {
    const bytecode = contracts[name]
    const data = proxy === undefined ? bytecode : encodeDeployData({ abi, bytecode, args: [proxy] })
    return (await ask('test_deploy', data)) as Hex
  }
  const proxy = await deploy('VerifierProxy')
  const verifier = await deploy('Verifier', proxy)
  const transact = async (to: Hex, data: Hex): Promise<void> =>
    void (await ask('test_transact', to, data))
  const nodes: TestNode[] = []

  return {
    proxy,
    verifier,
    ask,
    deploy,
    setConfig: ({ configDigest, signers, f }, to = verifier) => {
      const args = [configDigest as Hex, hexes(signers), f] as const
      return transact(to, encodeFunctionData({ abi, functionName: 'setConfig', args }))
    },
    updateConfig: (digest, old, { signers, f }) => {
      const args = [digest as Hex, hexes(old.signers), hexes(signers), f] as const
      return transact(verifier, encodeFunctionData({ abi, functionName: 'updateConfig', args }))
    },
    setActive: (digest, isActive) => {
      const args = [digest as Hex, isActive] as const
      return transact(verifier, encodeFunctionData({ abi, functionName: 'setActive', args }))
    },
    unsetVerifier: digest => {
      const args = [digest as Hex] as const
      return transact(proxy, encodeFunctionData({ abi, functionName: 'unsetVerifier', args }))
    },
    mine: async blocks => void (await ask('test_mine', blocks)),
    async startNode(answer = (_method, _params, next) => next()) {
      const node = await startNode(ask, answer)
      nodes.push(node)
      return node
    },
    close() {
      for (const node of nodes) void node.close()
      child.removeAllListeners('exit')
      child.disconnect()
    },
  }
}

type Ask = Chain['ask']

function createAsk(child: ChildProcess): Ask {
  const waiting = new Map<
    number,
    { resolve(value: unknown): void; reject(error: RPCError): void }
  >()
  let last = 0
  child.on(
    'message',
    ({ id, result, error }: { id: number; result: unknown; error?: RPCError }) => {
      const { resolve, reject } = waiting.get(id) ?? {}
      waiting.delete(id)
      if (error === undefined) resolve?.(result)
      else reject?.(error)
    },
  )
  return (method, ...params) =>
    new Promise((resolve, reject) => {
      waiting.set(++last, { resolve, reject })
      child.send({ id: last, method, params })
    })
}

interface RPCRequest {
  readonly id: number
  readonly method: string
  readonly params?: readonly unknown[]
}

async function startNode(ask: Ask, answer: Answer): Promise<TestNode> {
  const asked: string[] = []

  async function respond({ id, method, params = [] }: RPCRequest): Promise<object> {
    asked.push(method)
    try {
      const result = await answer(method, params, () => ask(method, ...params))
      return { jsonrpc: '2.0', id, result }
    } catch (error) {
      if (typeof error === 'number') throw error
      return { jsonrpc: '2.0', id, error }
    }
  }

  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const given = JSON.parse(body) as RPCRequest | RPCRequest[]
    try {
      const answered = Array.isArray(given)
        ? await Promise.all(given.map(respond))
        : await respond(given)
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(answered))
    } catch (status) {
      response.statusCode = status as number
      response.end('no')
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/v2/secret-key`, asked, close: () => closeServer(server) }
}

function closeServer(server: Server): Promise<void> {
  return new Promise(resolve => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
