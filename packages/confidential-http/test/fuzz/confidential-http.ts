import { openBody, sealBody } from '@sluice/source/plugins/confidential-http/response-encryption.js'
import { renderTemplate } from '@sluice/source/plugins/confidential-http/templates/template.js'
import type { Target } from '@sluice/test-support/fuzz/fuzz.js'
import { mutateBytes } from '@sluice/test-support/fuzz/mutations.js'
import { assert, encoder, json, NOW, ofBytes, text } from '@sluice/test-support/fuzz/target.js'
import { boxKeys } from 'sluice/internal'
import { readBootKey } from '../../remote/boot-keys.js'
import {
  openAnswer,
  openRequest,
  Rejection,
  readEnvelope,
  sealAnswer,
  sealRequest,
} from '../../remote/protocol.js'
import { readAnswer } from '../../remote/remote-enclave.js'
import { formatDuration, parseDuration } from '../../request/duration.js'
import { parseBase64 } from '../../request/fields.js'
import { normalizeRequest } from '../../request/normalize-request.js'
import { normalizeResponse } from '../../response/response.js'
import { toJSON } from '../../sealed-message.js'
import { PEM } from '../support/certificate.js'

const request = {
  vaultDonSecrets: [{ key: 'apiKey', namespace: 'main', owner: 'me' }, { key: 'other' }],
  request: {
    url: 'https://api.example.com/v1/transfers',
    method: 'POST',
    bodyString: '{"to":"{{.account}}"}',
    templatePublicValues: { recipient: 'acc-42' },
    multiHeaders: { Authorization: { values: ['Bearer {{.apiKey}}'] } },
    customRootCaCertPem: PEM,
    timeout: '3s',
    encryptOutput: true,
  },
}
const message = {
  $typeName: 'capabilities.networking.confidentialhttp.v1alpha.ConfidentialHTTPRequest',
  vaultDonSecrets: [],
  request: {
    url: 'http://api.example.com',
    method: 'GET',
    body: { case: 'bodyBytes', value: 'AAEC' },
    multiHeaders: {},
    timeout: { seconds: '5', nanos: 500_000_000 },
  },
}
const response = {
  statusCode: 200,
  body: 'eyJvayI6dHJ1ZX0=',
  multiHeaders: { 'content-type': { values: ['application/json'] } },
}

/** What reads JSON that others have parsed. */
function parseThen(read: (value: unknown) => unknown): (text: string) => unknown {
  return text => {
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      // The text itself is a value as well.
      value = text
    }
    return read(value)
  }
}

const templates = [
  '{"to":"{{.account}}"}',
  'Bearer {{ .apiKey }}',
  'a {{- .a -}} b',
  '{{/* comment */}}x{{- /* y */ -}}',
  '{{.ключ}}',
]
const values: Readonly<Record<string, string>> = { recipient: 'acc', apiKey: '{{.apiKey}}', a: '' }

export const confidential: readonly Target<string>[] = [
  json('confidential requests', [request, message], parseThen(normalizeRequest), {
    check(result) {
      if (result === undefined) return
      const again = normalizeRequest(result)
      assert(toJSON(again) === toJSON(result), 'a normal form that is its own')
      assert(Object.keys(Object.prototype).length === 0, 'no prototype changed')
    },
  }),
  json('confidential responses', [response], parseThen(normalizeResponse)),
  text(
    'durations',
    ['5s', '1.5s', '200ms', '1m', '0.000000001s', '315576000000s', '-3s'],
    each => parseDuration('timeout', each),
    {
      check(result) {
        if (result === undefined) return
        const duration = result as ReturnType<typeof parseDuration>
        const again = parseDuration('timeout', formatDuration(duration))
        assert(again.seconds === duration.seconds && again.nanos === duration.nanos, 'the same')
      },
    },
  ),
  text('templates', templates, each =>
    renderTemplate('bodyString', each, name =>
      Object.hasOwn(values, name) ? values[name] : undefined,
    ),
  ),
  text('base64', ['AAEC', 'AA==', 'AA', '_-8=', 'eyJvayI6dHJ1ZX0='], parseBase64, {
    check(result, given) {
      if (result === undefined) return
      const digits = given.replace(/=+$/, '').replaceAll('-', '+').replaceAll('_', '/')
      const again = Buffer.from(result as Uint8Array)
        .toString('base64')
        .replace(/=+$/, '')
      assert(again === digits, 'one text for the bytes')
    },
  }),
  json(
    'the enclave’s side: envelopes',
    [
      {
        version: 2,
        enclave: 'ef'.repeat(32),
        id: 'ab'.repeat(16),
        issuedAt: NOW,
        replyTo: 'cd'.repeat(32),
        request,
      },
    ],
    each => readEnvelope(each, 'ef'.repeat(32)),
    { isTyped: thrown => thrown instanceof Rejection },
  ),
  json(
    'the caller’s side: answers',
    [
      { id: 'ab'.repeat(16), response },
      {
        id: 'ab'.repeat(16),
        failure: { code: 'VAULT', message: 'no such secret', mayHaveBeenSent: false },
      },
    ],
    each => readAnswer(each, 'ab'.repeat(16), 'enclave.example'),
  ),
  json(
    'the caller’s side: boot keys',
    [{ version: 2, bootKey: 'ab'.repeat(32), upFor: 12.5 }],
    each => readBootKey(each, 'enclave.example'),
  ),
]

export async function sealed(): Promise<readonly Target<Uint8Array>[]> {
  const enclave = boxKeys()
  const caller = boxKeys()
  const aesKey = new Uint8Array(32).fill(7)
  const plaintext = encoder.encode(JSON.stringify(response))
  const requests = [sealRequest(JSON.stringify(request), enclave.publicKey, caller)]
  const answered = [sealAnswer(JSON.stringify(response), caller.publicKey, enclave)]
  const boxes = await Promise.all([0, 1].map(() => sealBody(aesKey, plaintext)))
  const target = (
    name: string,
    samples: readonly Uint8Array[],
    read: (bytes: Uint8Array) => unknown,
    share: number,
  ): Target<Uint8Array> => ({
    name,
    make: dice => mutateBytes(samples, dice),
    read,
    share,
    check(result, input) {
      if (result === undefined) return
      const isWhole = samples.some(each => Buffer.compare(each, input) === 0)
      assert(isWhole, 'opened only where nothing was changed')
    },
    ...ofBytes,
  })
  return [
    target('sealed requests', requests, bytes => openRequest(bytes, enclave), 0.1),
    target('sealed answers', answered, bytes => openAnswer(bytes, enclave.publicKey, caller), 0.1),
    target('encrypted bodies', boxes, bytes => openBody(aesKey, bytes), 1),
  ]
}
