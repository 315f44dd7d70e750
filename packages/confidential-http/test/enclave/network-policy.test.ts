import { describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { ask, enclaveOf, external, textOf } from '../support/enclave.js'

describe('the network policy', () => {
  const blocked = [400, 'upstream request blocked by enclave network policy']

  test.each([
    'https://127.0.0.1/',
    'https://127.1/',
    'https://0x7f.1/',
    'https://0177.0.0.1/',
    'https://2130706433/',
    'https://127.0.0.1./',
    'https://１２７.0.0.1/',
    'https://localhost/',
    'https://[::1]/',
    'https://[0:0:0:0:0:0:0:1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:7f00:1]/',
    'https://[::127.0.0.1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://[2002:7f00:1::]/',
    'https://0.0.0.0/',
    'https://0/',
    'https://[::]/',
    'https://10.0.0.1/',
    'https://169.254.169.254/latest/meta-data/',
    'https://100.64.0.1/',
    'https://192.168.0.1/',
    'https://[fc00::1]/',
    'https://[fe80::1]/',
    'https://8.8.8.8:22/',
    'https://[2606:4700::1111]:8443/',
    'http://8.8.8.8/',
  ])('keeps requests from %s', async url => {
    const response = await ask({ url }, { enclave: enclaveOf({ network: {} }) })
    expect([response.statusCode, textOf(response)]).toEqual(blocked)
    expect(response.multiHeaders).toEqual({})
  })

  test('looks at the addresses a name has, and not at the name', async () => {
    const enclave = enclaveOf({ network: { privateNetworks: true } })
    expect((await ask({}, { enclave })).statusCode).toBe(400)
    expect(external.received).toEqual([])
    expect((await ask({})).statusCode).toBe(200)
  })

  test('comes before the secrets go anywhere, and after they were found', async () => {
    const network = {}
    const enclave = enclaveOf({ network })
    expect((await ask({}, { enclave, secrets: ['apiKey'] })).statusCode).toBe(400)
    expect(await failureOf(ask({}, { enclave, secrets: ['missing'] }))).toMatchObject({
      code: 'VAULT',
    })
  })
})
