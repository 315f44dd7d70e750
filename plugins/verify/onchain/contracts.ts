import { bytesWords, createWords, numberWord, readText, rightWord, selectors } from './abi.js'
import { type EthereumNode, NodeFailure } from './node.js'

/** What the contracts of a network know of configurations. */
export interface Contracts {
  /** Where the log of a configuration is; undefined where the contracts have no such configuration. */
  locate(configDigest: string): Promise<Located | undefined>
  /** How the verifier treats reports of the configuration at present; undefined where that can’t be asked. */
  stateOf(configDigest: string, verifier: string): Promise<ConfigState | undefined>
}

/** The place of a configuration. */
export interface Located {
  /** The contract that has it, in lower case. */
  readonly verifier: string
  /** The number of the block in which its signers last changed, as the contract saw it. */
  readonly changedAt: number
}

/** Whether reports are accepted, and with how many signatures less one. */
export type ConfigState =
  | { readonly isActive: false }
  | { readonly isActive: true; readonly f: number }

const ZERO_ADDRESS = `0x${'0'.repeat(40)}`

/** Reads the contracts behind an address, in lower case: that of a VerifierProxy, or of a Verifier. */
export function createContracts(node: EthereumNode, address: string): Contracts {
  const names = new Map<string, Promise<string>>()

  function nameOf(contract: string): Promise<string> {
    const known = names.get(contract)
    if (known !== undefined) return known
    const asking = readName(node, contract)
    names.set(contract, asking)
    asking.catch(() => names.delete(contract))
    return asking
  }

  async function isProxy(): Promise<boolean> {
    return (await nameOf(address)).startsWith('VerifierProxy ')
  }

  async function verifierOf(configDigest: string): Promise<string | undefined> {
    if (!(await isProxy())) return address
    const found = await node.call(address, selectors.getVerifier + configDigest.slice(2))
    const verifier = createWords(found).address(0)
    return verifier === ZERO_ADDRESS ? undefined : verifier
  }

  return {
    async locate(configDigest) {
      const verifier = await verifierOf(configDigest)
      if (verifier === undefined) return undefined
      const name = await nameOf(verifier)
      if (!name.startsWith('Verifier 2.'))
        throw new NodeFailure(
          `the contract ${verifier} is ${name}: only those of Verifier 2 log a configuration by its digest`,
        )
      const found = await node.call(verifier, selectors.latestConfigDetails + configDigest.slice(2))
      const changedAt = createWords(found).number(0)
      return changedAt === 0 ? undefined : { verifier, changedAt }
    },
    async stateOf(configDigest, verifier) {
      // Only the proxy may call it, and its address is not to be had from it.
      return (await isProxy()) ? askState(node, configDigest, verifier, address) : undefined
    },
  }
}

/** What a contract says it is: `VerifierProxy 2.0.0`. */
async function readName(node: EthereumNode, contract: string): Promise<string> {
  const data = await node.call(contract, selectors.typeAndVersion).catch((failure: NodeFailure) => {
    if (failure.revert === undefined) throw failure
    return '0x'
  })
  const name = data === '0x' ? undefined : readText(data)
  if (name !== undefined && /^Verifier(Proxy)? \d/.test(name)) return name
  const where = `${contract} on chain ${await node.chainID()}`
  throw new NodeFailure(
    name === undefined || !/^[\w .-]+$/.test(name)
      ? `there is no verifier at ${where}`
      : `the contract ${where} is ${name}, and not a VerifierProxy or Verifier`,
  )
}

/**
 * Has the verifier refuse a report without signatures: the error says whether the configuration is active, and how many
 * signatures it wants. No function of the contract does.
 */
async function askState(
  node: EthereumNode,
  configDigest: string,
  verifier: string,
  proxy: string,
): Promise<ConfigState> {
  const revert = await revertOf(node.call(verifier, emptyReport(configDigest, proxy), proxy))
  const words = createWords(revert, 4)
  const name = revert.slice(0, 10)
  if (name === selectors.DigestInactive && words.word(0) === configDigest.slice(2))
    return { isActive: false }
  if (name === selectors.IncorrectSignatureCount && words.number(0) === 0)
    return { isActive: true, f: words.number(1) - 1 }
  throw new NodeFailure(`the verifier ${verifier} refused an empty report with an unknown error`)
}

async function revertOf(call: Promise<string>): Promise<string> {
  try {
    await call
  } catch (thrown) {
    const failure = thrown as NodeFailure
    if (failure.revert !== undefined) return failure.revert
    throw new NodeFailure(`${failure.message} (and not by an error of the verifier, as it should)`)
  }
  throw new NodeFailure('the verifier accepted a report without signatures')
}

/** The call `verify(bytes signedReport, address sender)` with a report of no bytes and no signatures. */
function emptyReport(configDigest: string, sender: string): string {
  const report = [
    configDigest.slice(2),
    ...[0, 0, 7 * 32, 8 * 32, 9 * 32, 0].map(numberWord),
    // The lengths of the blob, rawRs and rawSs.
    ...[0, 0, 0].map(numberWord),
  ].join('')
  return selectors.verifyBySender + numberWord(64) + rightWord(sender) + bytesWords(`0x${report}`)
}
