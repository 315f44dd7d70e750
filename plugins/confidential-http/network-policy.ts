import { BlockList, isIP } from 'node:net'
import { ValidationError } from '../../core/errors.js'
import { checkBoolean, checkNumber, checkOptions } from '../../core/options.js'
import type { EnclavePlugin } from './call.js'
import { EnclaveError } from './errors.js'

/** Options of `networkPolicy`. */
export interface NetworkPolicyOptions {
  /** Whether `http:` may be asked too, without encryption on the way. @default false */
  readonly http?: boolean
  /** The ports of public addresses that may be asked. @default [80, 443] */
  readonly ports?: readonly number[]
  /** Whether this machine's own addresses may be asked, on any port. @default false */
  readonly loopback?: boolean
  /** Whether private networks may be asked, on any port. @default false */
  readonly privateNetworks?: boolean
}

/**
 * Lets requests go to public addresses over HTTPS only, unless told otherwise. What counts is the address that is
 * dialled, each one of a DNS answer, and not the name.
 */
export function networkPolicy(options?: NetworkPolicyOptions): EnclavePlugin {
  const given = checkOptions('network', options, ['http', 'ports', 'loopback', 'privateNetworks'])
  const http = checkBoolean('network.http', given.http ?? false)
  const loopback = checkBoolean('network.loopback', given.loopback ?? false)
  const privateNetworks = checkBoolean('network.privateNetworks', given.privateNetworks ?? false)
  if (given.ports !== undefined && !Array.isArray(given.ports))
    throw new ValidationError('network.ports must be a list of ports')
  const ports = [...(given.ports ?? [80, 443])]
  for (const [index, port] of ports.entries())
    checkNumber(`network.ports[${index}]`, port, { min: 1, max: 65_535, whole: true })

  function mayDial(address: string, port: number): boolean {
    switch (networkOf(address)) {
      case 'public':
        return ports.includes(port)
      case 'loopback':
        return loopback
      case 'private':
        return privateNetworks
      case 'special':
        return false
    }
  }

  return {
    name: 'network-policy',
    attempt: next =>
      async function checkTarget(call) {
        const { protocol, port, username, password } = new URL(call.url)
        if (protocol !== 'https:' && !(http && protocol === 'http:'))
          throw blocked(`${protocol} is not allowed`)
        if (username !== '' || password !== '')
          throw blocked('a user name or password in the URL is not allowed')
        const dialled = Number(port || (protocol === 'https:' ? 443 : 80))
        return next({
          ...call,
          connection: { ...call.connection, mayDial: address => mayDial(address, dialled) },
        })
      },
  }
}

function blocked(rule: string): EnclaveError {
  return new EnclaveError(`blocked by the network policy: ${rule}`, { code: 'POLICY' })
}

type Network = 'public' | 'loopback' | 'private' | 'special'
type Networks = readonly (readonly [Network, BlockList])[]

/**
 * Special-purpose addresses by the registries of IANA (RFC 6890): none of them is a server on the internet. Each version
 * has lists of its own, as a BlockList takes an IPv4 address for the IPv6 one that carries it inside.
 */
const ipv4: Networks = [
  ['loopback', listOf('ipv4', '127.0.0.0/8')],
  ['private', listOf('ipv4', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16')],
  [
    'special',
    listOf(
      'ipv4',
      '0.0.0.0/8',
      '100.64.0.0/10',
      '169.254.0.0/16',
      '192.0.0.0/24',
      '192.0.2.0/24',
      '192.31.196.0/24',
      '192.52.193.0/24',
      '192.88.99.0/24',
      '192.175.48.0/24',
      '198.18.0.0/15',
      '198.51.100.0/24',
      '203.0.113.0/24',
      '224.0.0.0/3',
    ),
  ],
]

/** What is not global unicast is special; and of that, documentation and what carries IPv4 addresses inside. */
const ipv6: Networks = [
  ['loopback', listOf('ipv6', '::1/128')],
  ['private', listOf('ipv6', 'fc00::/7')],
  [
    'special',
    listOf(
      'ipv6',
      '::/3',
      '4000::/2',
      '8000::/1',
      '2001::/23',
      '2001:db8::/32',
      '2002::/16',
      '2620:4f:8000::/48',
      '3fff::/20',
    ),
  ],
]

function networkOf(address: string): Network {
  const [bare = ''] = address.split('%')
  const version = isIP(bare)
  if (version === 0) return 'special'
  const found =
    version === 4
      ? ipv4.find(([, list]) => list.check(bare, 'ipv4'))
      : ipv6.find(([, list]) => list.check(bare, 'ipv6'))
  return found?.[0] ?? 'public'
}

function listOf(version: 'ipv4' | 'ipv6', ...subnets: readonly string[]): BlockList {
  const list = new BlockList()
  for (const subnet of subnets) {
    const [address, prefix] = subnet.split('/') as [string, string]
    list.addSubnet(address, Number(prefix), version)
  }
  return list
}
