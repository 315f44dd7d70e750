import { BoundedMap } from '../../../core/bounded-map.js'
import { ValidationError } from '../../../core/errors.js'
import { number, readOptions, type Schema, withDefault } from '../../../core/options.js'
import { ReportVerificationError } from '../../../report/verifier.js'
import { checkAddress, checkDigest, checkSets, MAX_TIME, type SignerSet } from '../options.js'
import { ConfigReader } from './contracts.js'
import { checkClient, type EthereumClient, EthereumNode, NodeFailure } from './node.js'

export type { EthereumClient, RequestingClient, SendingClient } from './node.js'
export {
  encodeParameterPayload,
  encodeVerify,
  encodeVerifyBulk,
  type Hex,
  type VerifierProxy,
  verifierProxies,
  verifierProxyABI,
  verifyArgs,
  verifyBulkArgs,
} from './payloads.js'

/** Options of `onchainSigners`. */
export interface OnchainSignersOptions {
  /**
   * The client of a node of the verifier’s network, or several clients. Several clients must give
   * the same answers, so that a false answer of one node is noticed.
   */
  readonly client: EthereumClient | readonly EthereumClient[]
  /**
   * The address of the network’s VerifierProxy; see `verifierProxies`. The address of a Verifier
   * works too, but then deactivated configurations are not noticed.
   */
  readonly verifier: string
  /**
   * The first block of a search. A search is needed only if the log is not in the block that the
   * contract names. The best value is the block in which the contract was created, as no earlier
   * block has logs of the contract.
   * @default 0
   */
  readonly fromBlock?: number | bigint
  /**
   * Milliseconds after which the contract is asked again whether a configuration is still active.
   * The first report after this time causes the call. If the clients fail, the last answer is used
   * for up to 24 hours. With `Infinity`, the contract is asked only once.
   * @default 3_600_000
   */
  readonly maxAge?: number
  /** Milliseconds that one request may take. @default 5000 */
  readonly timeout?: number
}

/**
 * A source of signers that reads them from a verifier contract: the option `signers` of `verify`
 * and `verifyReport`.
 */
export type OnchainSigners = (configDigest: string) => Promise<SignerSet | undefined>

const HOUR = 3_600_000
/** The most configurations that are cached. */
const MAX_DIGESTS = 128
/** Milliseconds for which an answer is used if the clients give no newer answer. */
const MAX_STALE = 24 * HOUR
/**
 * Milliseconds for which a search continues after the last report that asked for its result. A
 * report waits at most 10 s.
 */
const WANTED = 15_000

const schema = {
  client: (_field, value) => checkClients(value),
  verifier: checkAddress,
  fromBlock: withDefault(0, checkBlock),
  maxAge: withDefault(3_600_000, number({ min: 1000, infinite: true })),
  timeout: withDefault(5000, number({ min: 1, max: 600_000 })),
} satisfies Schema<OnchainSignersOptions>

function checkClients(value: unknown): readonly EthereumClient[] {
  if (!Array.isArray(value)) return [checkClient('client', value)]
  if (value.length === 0) throw new ValidationError('client must not be an empty list')
  return value.map((each, index) => checkClient(`client[${index}]`, each))
}

function checkBlock(field: string, value: unknown): number {
  return number({ min: 0, whole: true })(field, typeof value === 'bigint' ? Number(value) : value)
}

interface Answer {
  readonly set: SignerSet
  /** When the contract gave the answer, on the monotonic clock. */
  readonly at: number
}

interface Asking {
  readonly answer: Promise<SignerSet | undefined>
  /** The time until which the search continues, on the monotonic clock. */
  wantedUntil: number
}

/**
 * Finds the signers of configurations in the `ConfigSet` events of a network’s verifier contract.
 * It reads a configuration when its first report arrives. It resolves with undefined if the
 * contract has no such configuration, or has deactivated it. It rejects if the contract can’t be
 * read.
 */
export function onchainSigners(options: OnchainSignersOptions): OnchainSigners {
  const given = readOptions('onchainSigners', options, schema)
  const { client, verifier, fromBlock, maxAge, timeout } = given
  const readers = client.map(
    each => new ConfigReader(new EthereumNode(each, timeout), verifier, fromBlock),
  )
  const answers = new BoundedMap<string, Answer>(MAX_DIGESTS)
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

  /** Makes a set that is valid for `time` milliseconds from now on. */
  function validFor(set: SignerSet, time: number): SignerSet {
    const activeUntil = Math.ceil((Date.now() + time) / 1000)
    return activeUntil > MAX_TIME ? set : { ...set, activeUntil }
  }

  return async function findSigners(given) {
    const configDigest = checkDigest('configDigest', given)
    const answer = answers.get(configDigest)
    const age = answer === undefined ? 0 : performance.now() - answer.at
    // The limit is half of maxAge, because the clock of the reports may be ahead of ours.
    if (answer !== undefined && age < maxAge / 2) return validFor(answer.set, maxAge - age)
    try {
      const set = await ask(configDigest)
      answers.delete(configDigest)
      if (set === undefined) return undefined
      answers.set(configDigest, { set, at: performance.now() })
      return validFor(set, maxAge)
    } catch (thrown) {
      if (answer !== undefined && age < MAX_STALE) return validFor(answer.set, maxAge / 2)
      throw toError(configDigest, verifier, thrown)
    }
  }
}

/** Asks all readers, and returns their common answer. Rejects if their answers differ. */
async function agree(
  readers: readonly ConfigReader[],
  configDigest: string,
  isWanted: () => boolean,
): Promise<SignerSet | undefined> {
  const [set, ...others] = await Promise.all(
    readers.map(async reader => toSet(configDigest, await reader.read(configDigest, isWanted))),
  )
  const text = (one: typeof set): string =>
    one === undefined ? '' : `${one.f} ${[...one.signers].sort().join()}`
  if (others.some(each => text(each) !== text(set)))
    throw new NodeFailure('the clients differ in their answers')
  return set
}

/**
 * Makes a set from a contract’s configuration. Rejects a set that breaks the rules for sets, as it
 * must not be cached.
 */
function toSet(
  configDigest: string,
  config: Awaited<ReturnType<ConfigReader['read']>>,
): SignerSet | undefined {
  if (config === undefined) return undefined
  const set = { configDigest, ...config }
  try {
    checkSets('what the contract has', set)
    return set
  } catch (thrown) {
    throw new NodeFailure((thrown as ValidationError).message)
  }
}

function toError(configDigest: string, address: string, thrown: unknown): Error {
  // Any other error is a fault of this code, and is kept as the cause, with its stack.
  const isFailure = thrown instanceof NodeFailure
  const rule = isFailure ? thrown.message : 'of an unexpected error'
  return new ReportVerificationError(
    `the signers of configDigest ${configDigest} can’t be read from the verifier ${address}: ${rule}`,
    { reason: 'signers-unavailable', ...(isFailure ? {} : { cause: thrown }) },
  )
}
