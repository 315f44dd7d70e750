import { BlockList, isIP } from 'node:net'
import { ValidationError } from '../../core/errors.js'
import {
  checkBoolean,
  checkNumber,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import type { EnclavePlugin } from './call.js'
import { EnclaveError } from './errors.js'

/** Options of `networkPolicy`. */
export interface NetworkPolicyOptions {
  /**
   * Whether `http:` URLs are allowed. Such requests are not encrypted on the way. @default false
   */
  readonly http?: boolean
  /** The ports that are allowed for public addresses. @default [80, 443] */
  readonly ports?: readonly number[]
  /** Whether this machine's own addresses are allowed, on any port. @default false */
  readonly loopback?: boolean
  /** Whether private networks are allowed, on any port. @default false */
  readonly privateNetworks?: boolean
}

const schema = {
  http: withDefault(false, checkBoolean),
  ports: withDefault([80, 443], checkPorts),
  loopback: withDefault(false, checkBoolean),
  privateNetworks: withDefault(false, checkBoolean),
} satisfies Schema<NetworkPolicyOptions>

function checkPorts(field: string, given: unknown): readonly number[] {
  if (!Array.isArray(given)) throw new ValidationError(`${field} must be a list of ports`)
  const rule = { min: 1, max: 65_535, whole: true }
  return given.map((port, index) => checkNumber(`${field}[${index}]`, port, rule))
}

/**
 * Limits where requests may go. By default only public addresses over HTTPS are allowed. The policy
 * checks every address that DNS returns for a name, not the name.
 */
export function networkPolicy(options?: NetworkPolicyOptions): EnclavePlugin {
  const { http, ports, loopback, privateNetworks } = readOptions(
    'network',
    options,
    schema,
    'network.',
  )

  function mayConnect(address: string, port: number): boolean {
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
        const { protocol, port: explicit, username, password } = new URL(call.url)
        if (protocol !== 'https:' && !(http && protocol === 'http:'))
          throw blocked(`${protocol} is not allowed`)
        if (username !== '' || password !== '')
          throw blocked('a user name or password in the URL is not allowed')
        const port = Number(explicit || (protocol === 'https:' ? 443 : 80))
        return next({
          ...call,
          connection: { ...call.connection, mayConnect: address => mayConnect(address, port) },
        })
      },
  }
}

function blocked(rule: string): EnclaveError {
  return new EnclaveError(`blocked by the network policy: ${rule}`, { code: 'POLICY' })
}

type Network = 'public' | 'loopback' | 'private' | 'special'

/**
 * The addresses of clouds that give a machine its credentials, outside the other special addresses.
 * Most clouds have 169.254.169.254 as well.
 */
const METADATA = {
  // Azure.
  ipv4: '168.63.129.16/32',
  // AWS, Google, Oracle, Scaleway, Akamai, Alibaba.
  ipv6: 'fd00:ec2::/32 fd20:ce::254/128 fd00:c1::a9fe:0/112 fd00:42::42/128 fd00:a9fe:a9fe::1/128 fd00:100::100:200/128',
}

/**
 * The special-purpose IPv4 addresses in the registries of IANA (RFC 6890). No public server has
 * such an address. IPv4 and IPv6 have separate lists, because a BlockList also matches an IPv4
 * address against IPv6 subnets that embed IPv4 addresses. The first list with an address counts.
 */
const ipv4: readonly (readonly [Network, BlockList])[] = [
  ['special', listOf(METADATA.ipv4)],
  ['loopback', listOf('127.0.0.0/8')],
  ['private', listOf('10.0.0.0/8 172.16.0.0/12 192.168.0.0/16')],
  [
    'special',
    listOf(
      '0.0.0.0/8 100.64.0.0/10 169.254.0.0/16 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24',
      '192.52.193.0/24 192.88.99.0/24 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24',
      '203.0.113.0/24 224.0.0.0/3',
    ),
  ],
]

/**
 * The special IPv6 addresses. These are all addresses outside global unicast. Within global
 * unicast, they are the addresses for documentation and the addresses that embed IPv4 addresses.
 */
const ipv6: readonly (readonly [Network, BlockList])[] = [
  ['special', listOf(METADATA.ipv6)],
  ['loopback', listOf('::1/128')],
  ['private', listOf('fc00::/7')],
  [
    'special',
    listOf(
      '::/3 4000::/2 8000::/1',
      '2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20',
    ),
  ],
]

function networkOf(address: string): Network {
  const [bare = ''] = address.split('%')
  const version = isIP(bare)
  if (version === 0) return 'special'
  const [lists, family] = version === 4 ? [ipv4, 'ipv4' as const] : [ipv6, 'ipv6' as const]
  return lists.find(([, list]) => list.check(bare, family))?.[0] ?? 'public'
}

/** Makes a BlockList from subnets that are separated by spaces. */
function listOf(...lines: readonly string[]): BlockList {
  const list = new BlockList()
  for (const subnet of lines.join(' ').split(' ')) {
    const [address, prefix] = subnet.split('/') as [string, string]
    list.addSubnet(address, Number(prefix), isIP(address) === 4 ? 'ipv4' : 'ipv6')
  }
  return list
}
