import { describe, expect, test } from '@jest/globals'
import {
  type NetworkPolicyOptions,
  networkPolicy,
} from '../../../plugins/confidential-http/network-policy.js'
import { callOf, carry } from '../../support/plugins/confidential-http.js'
import { failureOf } from '../../support/waiting.js'

/** The policy's decision about an address, for a URL. */
async function decide(
  options: NetworkPolicyOptions,
  address: string,
  url = 'https://api.example/',
): Promise<boolean | undefined> {
  const { reply, sent } = carry([networkPolicy(options)], callOf({ url }))
  await reply
  return sent[0]?.connection.mayConnect?.(address)
}

const everything = { loopback: true, privateNetworks: true }

describe('networkPolicy', () => {
  test.each([
    ['8.8.8.8', 'public'],
    ['1.1.1.1', 'public'],
    ['9.255.255.255', 'public'],
    ['11.0.0.0', 'public'],
    ['100.63.255.255', 'public'],
    ['100.128.0.0', 'public'],
    ['172.15.255.255', 'public'],
    ['172.32.0.0', 'public'],
    ['223.255.255.255', 'public'],
    ['2606:4700::1111', 'public'],
    ['2a00:1450:4001::5e', 'public'],
    ['2001:200::1', 'public'],
    ['127.0.0.1', 'loopback'],
    ['127.255.255.255', 'loopback'],
    ['::1', 'loopback'],
    ['0:0:0:0:0:0:0:1', 'loopback'],
    ['10.0.0.1', 'private'],
    ['172.16.0.0', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.1.1', 'private'],
    ['fc00::1', 'private'],
    ['fdff::1', 'private'],
    ['fd00:ec1::254', 'private'],
    ['fd00:ec3::254', 'private'],
    ['fd20:ce::253', 'private'],
    ['fd20:ce::255', 'private'],
    ['fd00:c1::a9fd:a9fe', 'private'],
    ['fd00:42::43', 'private'],
    ['fd00:a9fe:a9fe::2', 'private'],
    ['fd00:100::100:201', 'private'],
    ['168.63.129.15', 'public'],
    ['168.63.129.17', 'public'],
    ['168.63.129.16', 'special'],
    ['100.100.100.200', 'special'],
    ['192.0.0.192', 'special'],
    ['169.254.42.42', 'special'],
    ['169.254.170.2', 'special'],
    ['fd00:ec2::254', 'special'],
    ['fd00:ec2::23', 'special'],
    ['FD00:0EC2:0:0::0254', 'special'],
    ['fd00:ec2::254%eth0', 'special'],
    ['fd20:ce::254', 'special'],
    ['fd20:00ce:0:0:0:0:0:0254', 'special'],
    ['fd00:c1::a9fe:a9fe', 'special'],
    ['fd00:c1::169.254.169.254', 'special'],
    ['fd00:42::42', 'special'],
    ['fd00:a9fe:a9fe::1', 'special'],
    ['fd00:100::100:200', 'special'],
    ['0.0.0.0', 'special'],
    ['0.1.2.3', 'special'],
    ['100.64.0.1', 'special'],
    ['100.127.255.255', 'special'],
    ['169.254.169.254', 'special'],
    ['192.0.0.1', 'special'],
    ['192.0.2.1', 'special'],
    ['192.88.99.1', 'special'],
    ['198.18.0.1', 'special'],
    ['198.19.255.255', 'special'],
    ['198.51.100.1', 'special'],
    ['203.0.113.1', 'special'],
    ['224.0.0.1', 'special'],
    ['240.0.0.1', 'special'],
    ['255.255.255.255', 'special'],
    ['::', 'special'],
    ['::127.0.0.1', 'special'],
    ['::ffff:127.0.0.1', 'special'],
    ['::ffff:7f00:1', 'special'],
    ['::ffff:10.0.0.1', 'special'],
    ['::ffff:8.8.8.8', 'special'],
    ['64:ff9b::a00:1', 'special'],
    ['64:ff9b:1::1', 'special'],
    ['100::1', 'special'],
    ['2001::1', 'special'],
    ['2001:db8::1', 'special'],
    ['2002:7f00:1::1', 'special'],
    ['2620:4f:8000::1', 'special'],
    ['3fff::1', 'special'],
    ['5f00::1', 'special'],
    ['fe80::1', 'special'],
    ['fe80::1%eth0', 'special'],
    ['::1%lo', 'loopback'],
    ['fec0::1', 'special'],
    ['ff02::1', 'special'],
    ['localhost', 'special'],
    ['127.1', 'special'],
    ['', 'special'],
  ])('takes %s for %s', async (address, network) => {
    expect(await decide({}, address)).toBe(network === 'public')
    expect(await decide({ loopback: true }, address)).toBe(
      network === 'public' || network === 'loopback',
    )
    expect(await decide({ privateNetworks: true }, address)).toBe(
      network === 'public' || network === 'private',
    )
    expect(await decide(everything, address)).toBe(network !== 'special')
  })

  test.each([
    [{}, 'https://a.example/', true],
    [{}, 'https://a.example:443/', true],
    [{}, 'https://a.example:80/', true],
    [{}, 'https://a.example:8443/', false],
    [{ ports: [8443] }, 'https://a.example:8443/', true],
    [{ ports: [8443] }, 'https://a.example/', false],
    [{ ports: [] }, 'https://a.example/', false],
    [{ http: true }, 'http://a.example/', true],
    [{ http: true, ports: [443] }, 'http://a.example/', false],
  ])('with %j allows public addresses at %s: %s', async (options, url, allowed) => {
    expect(await decide(options, '8.8.8.8', url)).toBe(allowed)
  })

  test('allows addresses of this machine and of private networks on any port', async () => {
    for (const address of ['127.0.0.1', '10.0.0.1'])
      expect(await decide(everything, address, 'https://a.example:50000/')).toBe(true)
  })

  test.each([
    ['http://a.example/', 'http: is not allowed'],
    ['http://127.0.0.1/', 'http: is not allowed'],
    ['ftp://a.example/', 'ftp: is not allowed'],
    ['file:///etc/passwd', 'file: is not allowed'],
    ['https://user@a.example/', 'a user name or password in the URL is not allowed'],
    ['https://user:word@a.example/', 'a user name or password in the URL is not allowed'],
    ['https://:word@a.example/', 'a user name or password in the URL is not allowed'],
  ])('rejects %s before any connection', async (url, rule) => {
    const { reply, sent } = carry([networkPolicy(everything)], callOf({ url }))
    expect(await failureOf(reply)).toMatchObject({
      name: 'EnclaveError',
      code: 'POLICY',
      message: `blocked by the network policy: ${rule}`,
    })
    expect(sent).toEqual([])
  })

  test('keeps its ports if the given list changes', async () => {
    const ports = [443]
    const policy = networkPolicy({ ports })
    ports.push(8443)
    const { reply, sent } = carry([policy], callOf({ url: 'https://a.example:8443/' }))
    await reply
    expect(sent[0]?.connection.mayConnect?.('8.8.8.8')).toBe(false)
  })

  test.each([
    [{ http: 1 }, /^network\.http must be true or false/],
    [{ loopback: 'yes' }, /^network\.loopback must be true or false/],
    [{ privateNetworks: 0 }, /^network\.privateNetworks must be true or false/],
    [{ ports: [443, 0] }, /^network\.ports\[1\] must be at least 1/],
    [{ ports: ['443'] }, /^network\.ports\[0\] must be a number/],
    [{ ports: 443 }, /^network\.ports must be a list/],
    [[], /^network takes an object of options, not an array/],
  ])('rejects %j', (options, message) => {
    expect(() => networkPolicy(options as NetworkPolicyOptions)).toThrow(message)
  })
})
