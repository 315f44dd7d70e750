import { describe, expect, test } from '@jest/globals'
import { repeatsHeader } from '../../../client/request/http-error.js'

const sent = (headers: Record<string, string>) => new Headers(headers)

describe('what the service says repeats', () => {
  const key = 'd1a1a1a1-0000-4000-8000-000000000001'
  test.each([
    ['a key', `the key ${key} is unknown`, { authorization: key }],
    ['a part of it, in other letters', 'the key D1A1-A1A1… is unknown', { authorization: key }],
    ['a short key', 'the key k3yz is unknown', { authorization: 'k3yz' }],
  ])('%s', (_name, text, headers) => expect(repeatsHeader(text, sent(headers))).toBe(true))
})

describe('what the service says stands, though it has', () => {
  test.each([
    ['a key of one letter', 'feed unknown', { authorization: 'k' }],
    ['a key of three', 'no feeds: 001, 002', { authorization: '001' }],
    [
      'a time near that of the request',
      'no report at 1700000000',
      {
        'x-authorization-timestamp': '1700000000123',
      },
    ],
    ['the origin asked for', 'origin 0001 is away', { 'x-cll-origin': '0001' }],
  ])('%s', (_name, text, headers) => expect(repeatsHeader(text, sent(headers))).toBe(false))
})
