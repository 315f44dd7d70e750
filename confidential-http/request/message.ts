const PACKAGE = 'capabilities.networking.confidentialhttp.v1alpha' as const

/** The full names of the messages, by which every message says what it is. */
export const TYPE_NAMES: {
  readonly ConfidentialHTTPRequest: `${typeof PACKAGE}.ConfidentialHTTPRequest`
  readonly HTTPRequest: `${typeof PACKAGE}.HTTPRequest`
  readonly HTTPResponse: `${typeof PACKAGE}.HTTPResponse`
  readonly SecretIdentifier: `${typeof PACKAGE}.SecretIdentifier`
  readonly HeaderValues: `${typeof PACKAGE}.HeaderValues`
  readonly Duration: 'google.protobuf.Duration'
} = {
  ConfidentialHTTPRequest: `${PACKAGE}.ConfidentialHTTPRequest`,
  HTTPRequest: `${PACKAGE}.HTTPRequest`,
  HTTPResponse: `${PACKAGE}.HTTPResponse`,
  SecretIdentifier: `${PACKAGE}.SecretIdentifier`,
  HeaderValues: `${PACKAGE}.HeaderValues`,
  Duration: 'google.protobuf.Duration',
}

/** A confidential request in its one normal form: checked, complete, and able to cross threads. */
export interface ConfidentialHTTPRequestMessage {
  readonly $typeName: typeof TYPE_NAMES.ConfidentialHTTPRequest
  readonly vaultDonSecrets: readonly SecretIdentifierMessage[]
  readonly request: HTTPRequestMessage
}

/** The normal form of an HTTPRequest. */
export interface HTTPRequestMessage {
  readonly $typeName: typeof TYPE_NAMES.HTTPRequest
  /** Absolute, http or https, as it was given. */
  readonly url: string
  /** Upper case. */
  readonly method: string
  readonly body: HTTPRequestBodyMessage
  readonly multiHeaders: { readonly [name: string]: HeaderValuesMessage }
  readonly templatePublicValues: { readonly [name: string]: string }
  /** PEM; empty where none was given. */
  readonly customRootCaCertPem: Uint8Array
  /** More than 0, where one was given. */
  readonly timeout?: DurationMessage
  readonly encryptOutput: boolean
}

/** The normal form of a request's body. */
export type HTTPRequestBodyMessage =
  | { readonly case: 'bodyString'; readonly value: string }
  | { readonly case: 'bodyBytes'; readonly value: Uint8Array }
  | { readonly case: undefined; readonly value?: undefined }

/** The normal form of a SecretIdentifier. */
export interface SecretIdentifierMessage {
  readonly $typeName: typeof TYPE_NAMES.SecretIdentifier
  readonly key: string
  /** `main` where none was given. */
  readonly namespace: string
  readonly owner?: string
}

/** The normal form of HeaderValues. */
export interface HeaderValuesMessage {
  readonly $typeName: typeof TYPE_NAMES.HeaderValues
  readonly values: readonly string[]
}

/** The normal form of a Duration. */
export interface DurationMessage {
  readonly $typeName: typeof TYPE_NAMES.Duration
  readonly seconds: bigint
  /** 0 to 999,999,999. */
  readonly nanos: number
}
