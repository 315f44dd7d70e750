import { expect } from '@jest/globals'
import { createPublicClient, http } from 'viem'
import { isStreamsError, type SignerSet } from '../../../index.js'
import {
  type EthereumClient,
  type OnchainSigners,
  type OnchainSignersOptions,
  onchainSigners,
} from '../../../plugins/verify/onchain/index.js'
import { signers } from '../report/signed-reports.js'
import type { Answer, Chain, TestNode } from './chain.js'

/** The digest of a configuration of ours. */
export function digestOf(number: number): string {
  return `0x0009${number.toString(16).padStart(60, '0')}`
}

/** The signers of a configuration, by default ours. */
export function setOf(configDigest: string, set: SignerSet = signers): SignerSet {
  return { ...set, configDigest }
}

/** A client of viem that tries nothing again. */
export function connectViem(url: string): EthereumClient {
  return createPublicClient({ transport: http(url, { retryCount: 0 }) })
}

/** A source that asks a node of a chain, and never again what it knows. */
export async function createSource(
  chain: Chain,
  answer?: Answer,
  options: Partial<OnchainSignersOptions> = {},
): Promise<{ source: OnchainSigners; node: TestNode }> {
  const node = await chain.startNode(answer)
  const client = connectViem(node.url)
  const source = onchainSigners({
    client,
    verifier: chain.proxy,
    maxAge: Number.POSITIVE_INFINITY,
    ...options,
  })
  return { node, source }
}

const beginning = /^the signers of configDigest 0x\w+ can’t be read from the verifier 0x\w+: /

/** Why signers could not be read. */
export async function failureOf(reading: Promise<unknown>): Promise<string> {
  const thrown = await reading.then(
    found => new Error(`found ${JSON.stringify(found)}`),
    (error: unknown) => error,
  )
  if (!isStreamsError(thrown, 'VERIFICATION')) throw thrown
  expect(thrown).toMatchObject({ reason: 'signers-unavailable', isRetryable: true })
  expect(thrown.message).toMatch(beginning)
  expect(`${JSON.stringify(thrown)} ${thrown.stack}`).not.toContain('secret-key')
  return thrown.message.replace(beginning, '')
}
