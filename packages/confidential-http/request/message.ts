import type { BOUND_LAYOUT } from 'sluice/internal'
import type { HeaderValuesMessage, HTTPRequestBody, MessageName } from '../types.js'

const PACKAGE = 'capabilities.networking.confidentialhttp.v1alpha' as const

type Message =
  | 'ConfidentialHTTPRequest'
  | 'HTTPRequest'
  | 'HTTPResponse'
  | 'SecretIdentifier'
  | 'HeaderValues'

/** The full names of the messages, for their `$typeName`. */
export const TYPE_NAMES: { readonly [Name in Message]: MessageName<Name> } & {
  readonly Duration: 'google.protobuf.Duration'
} = {
  ConfidentialHTTPRequest: `${PACKAGE}.ConfidentialHTTPRequest`,
  HTTPRequest: `${PACKAGE}.HTTPRequest`,
  HTTPResponse: `${PACKAGE}.HTTPResponse`,
  SecretIdentifier: `${PACKAGE}.SecretIdentifier`,
  HeaderValues: `${PACKAGE}.HeaderValues`,
  Duration: 'google.protobuf.Duration',
}

/**
 * A confidential request in its normal form. It is checked and complete, and can be sent to another
 * thread.
 */
export interface ConfidentialHTTPRequestMessage {
  readonly $typeName: MessageName<'ConfidentialHTTPRequest'>
  readonly vaultDonSecrets: readonly SecretIdentifierMessage[]
  readonly request: HTTPRequestMessage
}

/** The normal form of an HTTPRequest. */
export interface HTTPRequestMessage {
  readonly $typeName: MessageName<'HTTPRequest'>
  /** The absolute URL with http or https, as the caller wrote it. */
  readonly url: string
  /** The HTTP method, in upper case. */
  readonly method: string
  readonly body: HTTPRequestBody
  readonly multiHeaders: { readonly [name: string]: HeaderValuesMessage }
  readonly templatePublicValues: { readonly [name: string]: string }
  /** The root certificates as PEM. Empty if none are given. */
  readonly customRootCaCertPem: Uint8Array
  /** The timeout, which is more than 0. */
  readonly timeout?: DurationMessage
  readonly encryptOutput: boolean
  /** The layout of the encrypted body. If it is set, `requestId` is set, too. */
  readonly outputLayout?: typeof BOUND_LAYOUT
  readonly requestId?: string
}

/** The normal form of a SecretIdentifier. */
export interface SecretIdentifierMessage {
  readonly $typeName: MessageName<'SecretIdentifier'>
  readonly key: string
  readonly namespace: string
  readonly owner?: string
}

/** The normal form of a Duration. */
export interface DurationMessage {
  readonly $typeName: 'google.protobuf.Duration'
  readonly seconds: bigint
  /** Billionths of a second, 0 to 999,999,999. */
  readonly nanos: number
}
