import { describe, expect, test } from '@jest/globals'
import { getAddress } from 'ethers'
import { type Chain, isAddress } from 'viem'
import * as chains from 'viem/chains'
import { verifierProxies } from '../../../../plugins/verify/onchain/index.js'

describe('the verifier proxies', () => {
  test('have addresses with right checksums', () => {
    for (const { address } of verifierProxies) {
      expect(isAddress(address, { strict: true })).toBe(true)
      expect(getAddress(address.toLowerCase())).toBe(address)
    }
  })

  test('are one for each network, and each chain', () => {
    const networks = verifierProxies.map(({ network }) => network)
    expect(new Set(networks).size).toBe(networks.length)
    const ids = verifierProxies.flatMap(({ chainID }) => chainID ?? [])
    expect(new Set(ids).size).toBe(ids.length)
    expect(networks.length).toBe(99)
    expect(ids.length).toBe(86)
  })

  test('of Arbitrum are those that many programs name', () => {
    const found = verifierProxies.filter(({ network }) => network.startsWith('Arbitrum'))
    expect(found).toEqual([
      {
        network: 'Arbitrum Mainnet',
        chainID: 42_161,
        isTestnet: false,
        address: '0x478Aa2aC9F6D65F84e09D9185d126c3a17c2a93C',
      },
      {
        network: 'Arbitrum Sepolia',
        chainID: 421_614,
        isTestnet: true,
        address: '0x2ff010DEbC1297f19579B4246cad07bd24F2488A',
      },
    ])
  })

  test('are on chains that viem knows by the same number, as networks for tests or not', () => {
    const known = Object.values(chains as unknown as Readonly<Record<string, Chain>>)
    const wrong = verifierProxies.filter(({ chainID, isTestnet }) => {
      const found = known.filter(({ id }) => id === chainID)
      // Some numbers have been used twice.
      return found.length > 0 && !found.some(({ testnet = false }) => testnet === isTestnet)
    })
    // viem does not say that this one is for tests.
    expect(wrong.map(({ network }) => network)).toEqual(['Metis Sepolia Testnet'])
    const ids = new Set(known.map(({ id }) => id))
    expect(verifierProxies.filter(({ chainID = 0 }) => ids.has(chainID)).length).toBeGreaterThan(60)
  })
})
