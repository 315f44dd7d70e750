import { normalizeRequest } from '../../request/normalize-request.js'

export const required: { url: string; method: string } = {
  url: 'https://api.example/v1',
  method: 'GET',
}

export const normalize = (request: object): ReturnType<typeof normalizeRequest>['request'] =>
  normalizeRequest({ request: { ...required, ...request } }).request

export const utf8 = (text: string): Uint8Array => new Uint8Array(new TextEncoder().encode(text))

export const base64 = (value: string | Uint8Array): string => Buffer.from(value).toString('base64')
