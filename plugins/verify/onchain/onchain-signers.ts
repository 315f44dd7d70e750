import { ValidationError } from '../../../core/errors.js'
import { checkNumber, checkOptions, checkText, type OptionNames } from '../../../core/options.js'
import { ReportVerificationError } from '../../../report/verifier.js'
import { checkSets, MAX_TIME, type SignerSet } from '../options.js'
import { createContracts } from './contracts.js'
import { createLogSearch } from './log-search.js'
import { checkClient, createNode, type EthereumClient, NodeFailure } from './node.js'

/** Options of `onchainSigners`. */
export interface OnchainSignersOptions {
  /** Asks a node of the verifier’s network. Several must all give the same answer: one that lies is found out. */
  readonly client: EthereumClient | readonly EthereumClient[]
  /**
   * The address of the network’s VerifierProxy, see `verifierProxies`. With that of a Verifier behind it, it can’t be asked
   * whether a configuration was deactivated.
   */
  readonly verifier: string
  /**
   * The block from which a log is searched that is not in the block which the contract names. That of the contract’s creation
   * saves the node a search.
   * @default 0
   */
  readonly fromBlock?: number | bigint
  /**
   * Milliseconds after which the contract is asked again whether a configuration is still active, with the first report from
   * then on. While no client can be reached, the last answer is used for up to 24 hours. `Infinity`: it is asked once.
   * @default 3_600_000
   */
  readonly maxAge?: number
  /** Milliseconds that one request may take. @default 5000 */
  readonly timeout?: number
}

/** A source of signers that reads them from a verifier contract: the option `signers` of `verify` and `verifyReport`. */
export type OnchainSigners = (configDigest: string) => Promise<SignerSet | undefined>

const names: OptionNames<OnchainSignersOptions> = {
  client: true,
  verifier: true,
  fromBlock: true,
  maxAge: true,
  timeout: true,
}

/** Configurations that are cached. */
const MAX_DIGESTS = 128
const HOUR = 3_600_000
/** Milliseconds for which an answer is used where a later one can’t be had. */
const MAX_STALE = 24 * HOUR
/** Milliseconds for which a search goes on after the last report that waited for it: longer than any waits. */
const WANTED = 15_000

interface Answer {
  readonly set: SignerSet
  /** On the monotonic clock. */
  readonly at: number
}

interface Asking {
  readonly answer: Promise<SignerSet | undefined>
  /** On the monotonic clock. */
  wantedUntil: number
}

/**
 * Finds the signers of configurations in the `ConfigSet` events of a network’s verifier contract, each when a report of it is
 * first seen. It finds none where the contract has none, or has deactivated it, and rejects where the contract can’t be read.
 */
export function onchainSigners(options: OnchainSignersOptions): OnchainSigners {
  const given = checkOptions('onchainSigners', options, names)
  const address = checkAddress('verifier', given.verifier)
  const fromBlock = checkBlock(given.fromBlock ?? 0)
  const maxAge = checkNumber('maxAge', given.maxAge ?? HOUR, { min: 1000, infinite: true })
  const timeout = checkNumber('timeout', given.timeout ?? 5000, { min: 1, max: 600_000 })
  const readers = checkClients(given.client).map(client =>
    createReader(client, address, fromBlock, timeout),
  )
  const answers = new Map<string, Answer>()
  const asked = new Map<string, Asking>()

  function ask(configDigest: string): Promise<SignerSet | undefined> {
    const wantedUntil = performance.now() + WANTED
    const known = asked.get(configDigest)
    if (known !== undefined) {
      known.wantedUntil = wantedUntil
      return known.answer
    }
    const isWanted = (): boolean => performance.now() < asking.wantedUntil
    const asking: Asking = { answer: agree(readers, configDigest, isWanted), wantedUntil }
    asked.set(configDigest, asking)
    const forget = (): void => void asked.delete(configDigest)
    asking.answer.then(forget, forget)
    return asking.answer
  }

  /** A set that is valid for so long from now on. */
  function validFor(set: SignerSet, time: number): SignerSet {
    const activeUntil = Math.ceil((Date.now() + time) / 1000)
    return activeUntil > MAX_TIME ? set : { ...set, activeUntil }
  }

  return async function findSigners(given) {
    const configDigest = checkDigest(given)
    const answer = answers.get(configDigest)
    const age = answer === undefined ? 0 : performance.now() - answer.at
    // Half of it: the clock of the reports may be ahead of ours.
    if (answer !== undefined && age < maxAge / 2) return validFor(answer.set, maxAge - age)
    try {
      const set = await ask(configDigest)
      answers.delete(configDigest)
      if (set === undefined) return undefined
      if (answers.size === MAX_DIGESTS) answers.delete(answers.keys().next().value as string)
      answers.set(configDigest, { set, at: performance.now() })
      return validFor(set, maxAge)
    } catch (thrown) {
      if (answer !== undefined && age < MAX_STALE) return validFor(answer.set, maxAge / 2)
      throw toError(configDigest, address, thrown)
    }
  }
}

type Reader = (configDigest: string, isWanted: () => boolean) => Promise<SignerSet | undefined>

function createReader(
  client: EthereumClient,
  address: string,
  fromBlock: number,
  timeout: number,
): Reader {
  const node = createNode(client, timeout)
  const contracts = createContracts(node, address)
  const search = createLogSearch(node, fromBlock)

  return async function read(configDigest, isWanted) {
    const located = await contracts.locate(configDigest)
    if (located === undefined) return undefined
    const { verifier, changedAt } = located
    const state = await contracts.stateOf(configDigest, verifier)
    if (state?.isActive === false) return undefined
    const logged = await search.find(verifier, configDigest, changedAt, isWanted)
    const f = logged.f ?? state?.f
    if (f === undefined)
      throw new NodeFailure(
        'its signers were changed by ConfigUpdated, which does not have f: give the address of the VerifierProxy',
      )
    if (state !== undefined && state.f !== f)
      throw new NodeFailure(`the log has an f of ${f}, the contract one of ${state.f}`)
    return checked({ configDigest, signers: logged.signers, f })
  }
}

/** A set that nobody can use must not be cached. */
function checked(set: SignerSet): SignerSet {
  try {
    checkSets('what the contract has', set)
    return set
  } catch (thrown) {
    throw new NodeFailure((thrown as ValidationError).message)
  }
}

/** The answer of all readers, which must be the same. */
async function agree(
  readers: readonly Reader[],
  configDigest: string,
  isWanted: () => boolean,
): Promise<SignerSet | undefined> {
  const [first, ...others] = await Promise.all(readers.map(read => read(configDigest, isWanted)))
  const text = (set: SignerSet | undefined): string =>
    set === undefined ? '' : `${set.f} ${[...set.signers].sort().join()}`
  if (others.some(each => text(each) !== text(first)))
    throw new NodeFailure('the clients differ in their answers')
  return first
}

function toError(configDigest: string, address: string, thrown: unknown): Error {
  // What is not a failure of a node is one of ours, and keeps its stack.
  const isFailure = thrown instanceof NodeFailure
  const rule = isFailure ? thrown.message : 'of an unexpected error'
  return new ReportVerificationError(
    `the signers of configDigest ${configDigest} can’t be read from the verifier ${address}: ${rule}`,
    { reason: 'signers-unavailable', ...(isFailure ? {} : { cause: thrown }) },
  )
}

function checkClients(value: OnchainSignersOptions['client']): readonly EthereumClient[] {
  if (!Array.isArray(value)) return [checkClient('client', value)]
  if (value.length === 0) throw new ValidationError('client must not be an empty list')
  return value.map((each, index) => checkClient(`client[${index}]`, each))
}

/** Checks an address, and returns it in lower case. */
export function checkAddress(field: string, value: unknown): string {
  const address = checkText(field, value).toLowerCase()
  if (!/^0x[0-9a-f]{40}$/.test(address))
    throw new ValidationError(`${field} must be 0x and 40 hexadecimal digits`)
  return address
}

function checkDigest(value: unknown): string {
  const digest = checkText('configDigest', value).toLowerCase()
  if (!/^0x[0-9a-f]{64}$/.test(digest))
    throw new ValidationError('configDigest must be 0x and 64 hexadecimal digits')
  return digest
}

function checkBlock(value: number | bigint): number {
  return checkNumber('fromBlock', typeof value === 'bigint' ? Number(value) : value, {
    min: 0,
    whole: true,
  })
}
