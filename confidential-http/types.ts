/** A confidential request: what to send, and the secrets that may be put into it. */
export interface ConfidentialHTTPRequest {
  readonly $typeName?: 'capabilities.networking.confidentialhttp.v1alpha.ConfidentialHTTPRequest'
  /** The request that is made inside the enclave. */
  readonly request?: HTTPRequest | HTTPRequestJson | undefined
  /** The vault's secrets that may fill `{{.key}}`, at most 10; nobody outside the enclave sees them. */
  readonly vaultDonSecrets?: readonly (SecretIdentifier | SecretIdentifierJson)[] | undefined
}

/** ConfidentialHTTPRequest in plain JSON. */
export interface ConfidentialHTTPRequestJson {
  /** The request that is made inside the enclave. */
  readonly request?: HTTPRequestJson | undefined
  /** The vault's secrets that may fill `{{.key}}`, at most 10; nobody outside the enclave sees them. */
  readonly vaultDonSecrets?: readonly SecretIdentifierJson[] | undefined
}

/** A request to an external API. The body is one of two: `bodyString` or `bodyBytes`, or `body` as messages hold them. */
export interface HTTPRequest {
  readonly $typeName?: 'capabilities.networking.confidentialhttp.v1alpha.HTTPRequest'
  /** The URL of the API's endpoint, absolute. Placeholders are not filled here. */
  readonly url: string
  /** The HTTP method, such as GET or POST, in either case. */
  readonly method: string
  /** The body as a template: the way to put secrets into it. */
  readonly bodyString?: string | undefined
  /** The body as raw bytes, in base64 where it is a string. Placeholders are not filled here. */
  readonly bodyBytes?: Uint8Array | string | undefined
  /** The body as protobuf messages hold it. */
  readonly body?: HTTPRequestBody | undefined
  /** The request's headers; each has a list of values, and each value is a template. */
  readonly multiHeaders?:
    | { readonly [name: string]: HeaderValues | HeaderValuesJson | undefined }
    | undefined
  /** Values that are no secret and fill placeholders in body and headers. They come before secrets of that name. */
  readonly templatePublicValues?: { readonly [name: string]: string | undefined } | undefined
  /** The root certificate by which the server's certificate is checked: PEM, or base64 of PEM. */
  readonly customRootCaCertPem?: Uint8Array | string | undefined
  /** How long the request may take: `'5s'`, `'1.5s'`, `'200ms'`, `'1m'`, or `{ seconds, nanos }`. */
  readonly timeout?: Duration | DurationJson | undefined
  /** Whether the body of the response is encrypted inside the enclave. @default false */
  readonly encryptOutput?: boolean | undefined
}

/** The one body of a request, as protobuf messages hold it. */
export type HTTPRequestBody =
  | { readonly case: 'bodyString'; readonly value: string }
  | { readonly case: 'bodyBytes'; readonly value: Uint8Array }
  | { readonly case: undefined; readonly value?: undefined }

/** HTTPRequest in plain JSON. */
export interface HTTPRequestJson {
  /** The URL of the API's endpoint, absolute; required. Placeholders are not filled here. */
  readonly url?: string | undefined
  /** The HTTP method, such as GET or POST, in either case; required. */
  readonly method?: string | undefined
  /** The body as a template: the way to put secrets into it. */
  readonly bodyString?: string | undefined
  /** The body as raw bytes, in base64. Placeholders are not filled here. */
  readonly bodyBytes?: string | undefined
  /** The request's headers; each has a list of values, and each value is a template. */
  readonly multiHeaders?: { readonly [name: string]: HeaderValuesJson | undefined } | undefined
  /** Values that are no secret and fill placeholders in body and headers. They come before secrets of that name. */
  readonly templatePublicValues?: { readonly [name: string]: string | undefined } | undefined
  /** The root certificate by which the server's certificate is checked: PEM, or base64 of PEM. */
  readonly customRootCaCertPem?: string | undefined
  /** How long the request may take: `'5s'`, `'1.5s'`, `'200ms'` or `'1m'`. */
  readonly timeout?: DurationJson | undefined
  /** Whether the body of the response is encrypted inside the enclave. @default false */
  readonly encryptOutput?: boolean | undefined
}

/** The answer to a confidential request. */
export interface HTTPResponse {
  readonly $typeName?: 'capabilities.networking.confidentialhttp.v1alpha.HTTPResponse'
  /** The HTTP status. */
  readonly statusCode: number
  /** The body; the encrypted one where `encryptOutput` was true. */
  readonly body: Uint8Array
  /** The response's headers; each has a list of values. */
  readonly multiHeaders: { readonly [name: string]: HeaderValues }
}

/** HTTPResponse in plain JSON; what is absent is 0, or empty. */
export interface HTTPResponseJson {
  /** The HTTP status. */
  readonly statusCode?: number | undefined
  /** The body in base64; the encrypted one where `encryptOutput` was true. */
  readonly body?: string | undefined
  /** The response's headers; each has a list of values. */
  readonly multiHeaders?: { readonly [name: string]: HeaderValuesJson | undefined } | undefined
}

/** What a secret is called in the vault. */
export interface SecretIdentifier {
  readonly $typeName?: 'capabilities.networking.confidentialhttp.v1alpha.SecretIdentifier'
  /** The secret's name, and that of its placeholder: `myApiKey` fills `{{.myApiKey}}`. */
  readonly key: string
  /** The secret's namespace. @default 'main' */
  readonly namespace?: string | undefined
  /** The address of the secret's owner. */
  readonly owner?: string | undefined
}

/** SecretIdentifier in plain JSON. */
export interface SecretIdentifierJson {
  /** The secret's name, and that of its placeholder: `myApiKey` fills `{{.myApiKey}}`; required. */
  readonly key?: string | undefined
  /** The secret's namespace. @default 'main' */
  readonly namespace?: string | undefined
  /** The address of the secret's owner. */
  readonly owner?: string | undefined
}

/** The values of one header. */
export interface HeaderValues {
  readonly $typeName?: 'capabilities.networking.confidentialhttp.v1alpha.HeaderValues'
  /** In a request each is a template, such as `Bearer {{.token}}`. */
  readonly values: readonly string[]
}

/** HeaderValues in plain JSON. */
export interface HeaderValuesJson {
  /** In a request each is a template, such as `Bearer {{.token}}`. */
  readonly values?: readonly string[] | undefined
}

/** A length of time: the sum of both. */
export interface Duration {
  readonly $typeName?: 'google.protobuf.Duration'
  /** Whole seconds, at most 315,576,000,000. */
  readonly seconds: bigint | number | string
  /** Billionths of a second, 0 to 999,999,999. @default 0 */
  readonly nanos?: number | undefined
}

/** Duration in plain JSON: a number of at most 9 decimals, followed by `s`, `ms` or `m`. */
export type DurationJson = string
