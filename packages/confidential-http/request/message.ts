import type { BOUND_LAYOUT } from 'sluice/internal'
import type { HeaderValues, HTTPRequestBody, MessageName } from '../types.js'

const PACKAGE = 'capabilities.networking.confidentialhttp.v1alpha' as const

type Message =
  | 'ConfidentialHTTPRequest'
  | 'HTTPRequest'
  | 'HTTPResponse'
  | 'SecretIdentifier'
  | 'HeaderValues'

/** The full names of the messages, which their `$typeName` holds. */
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

/** A confidential request in its normal form: checked, complete, and able to cross threads. */
export interface ConfidentialHTTPRequestMessage {
  readonly $typeName: MessageName<'ConfidentialHTTPRequest'>
  readonly vaultDonSecrets: readonly SecretIdentifierMessage[]
  readonly request: HTTPRequestMessage
}

/** The normal form of an HTTPRequest. */
export interface HTTPRequestMessage {
  readonly $typeName: MessageName<'HTTPRequest'>
  /** Absolute, http or https, as the caller wrote it. */
  readonly url: string
  /** Upper case. */
  readonly method: string
  readonly body: HTTPRequestBody
  readonly multiHeaders: { readonly [name: string]: HeaderValuesMessage }
  readonly templatePublicValues: { readonly [name: string]: string }
  /** PEM, or empty. */
  readonly customRootCaCertPem: Uint8Array
  /** More than 0. */
  readonly timeout?: DurationMessage
  readonly encryptOutput: boolean
  /** Both or neither. */
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

/** The normal form of HeaderValues. */
export type HeaderValuesMessage = Required<HeaderValues>

/** The normal form of a Duration. */
export interface DurationMessage {
  readonly $typeName: 'google.protobuf.Duration'
  readonly seconds: bigint
  /** 0 to 999,999,999. */
  readonly nanos: number
}
