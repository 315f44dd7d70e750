import { describe, expect, test } from '@jest/globals'
import { createCertificateAuthority } from '@sluice/engine'
import { rootCertificates } from '../../../plugins/confidential-http/root-certificates.js'
import { callOf, carry } from '../../support/plugins/confidential-http.js'
import { processorTime } from '../../support/processor-time.js'
import { failureOf } from '../../support/waiting.js'

const authority = async (): Promise<string> => (await createCertificateAuthority()).ca

describe('rootCertificates', () => {
  test('replaces the roots by every certificate of the PEM, for that request only', async () => {
    const [one, other] = [await authority(), await authority()]
    const plugin = rootCertificates()
    const customRootCaCertPem = `# one\n${one}\r\n# another\n${other}\n`
    const first = carry([plugin], callOf({ customRootCaCertPem, connection: { ca: ['before'] } }))
    await first.reply
    expect(first.sent[0]?.connection.ca).toEqual([one.trim(), other.trim()])
    const second = carry([plugin], callOf())
    await second.reply
    expect(second.sent[0]?.connection).toEqual({})
  })

  const broken = `-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----`
  test.each([
    ['no certificate', 'none', 'must hold a certificate in PEM'],
    ['a beginning without an end', broken.slice(0, 40), 'must hold a certificate in PEM'],
    ['nothing in between', broken.replace('bm9uZQ==', ''), "number 1 can't be read as one"],
    ['no DER', broken, "must hold certificates: number 1 can't be read as one"],
    ['too many', `${broken}\n`.repeat(65), 'must hold at most 64 certificates'],
    [
      'a private key',
      broken.replaceAll('CERTIFICATE', 'PRIVATE KEY'),
      'must hold a certificate in PEM',
    ],
  ])('rejects %s, and nothing is sent', async (_name, customRootCaCertPem, rule) => {
    const { reply, sent } = carry([rootCertificates()], callOf({ customRootCaCertPem }))
    const error = await failureOf(reply)
    expect(error).toMatchObject({ name: 'ValidationError', code: 'VALIDATION' })
    expect(error.message).toMatch(/^request\.customRootCaCertPem must hold /)
    expect(error.message).toContain(rule)
    expect(sent).toEqual([])
  })

  test('names the invalid one of several', async () => {
    const customRootCaCertPem = `${await authority()}${broken}`
    const { reply } = carry([rootCertificates()], callOf({ customRootCaCertPem }))
    expect((await failureOf(reply)).message).toContain("number 2 can't be read")
  })

  test('reads long text that is nearly PEM in linear time', async () => {
    for (const part of ['-----BEGIN CERTIFICATE-----', '-----BEGIN CERTIFICATE-----x', '-', 'x']) {
      const timeOf = (bytes: number): Promise<number> => {
        const customRootCaCertPem = part.repeat(bytes / part.length)
        return processorTime(() =>
          failureOf(carry([rootCertificates()], callOf({ customRootCaCertPem })).reply),
        )
      }
      const [short, long] = [await timeOf(100_000), await timeOf(1_000_000)]
      // Quadratic, it would be a hundred times as much, and seconds.
      expect(long).toBeLessThan(40 * short + 100)
    }
  })
})
