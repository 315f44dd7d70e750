/** The full name of a message, as protobuf knows it. */
export type MessageName<Message extends string> =
  `capabilities.networking.confidentialhttp.v1alpha.${Message}`

/** A confidential request: the HTTP request, and the secrets that may be put into it. */
export interface ConfidentialHTTPRequest {
  /** The name of the protobuf message, where an SDK made the object; ignored. */
  readonly $typeName?: MessageName<'ConfidentialHTTPRequest'>
  /** The request that is made inside the enclave. */
  readonly request?: HTTPRequest | HTTPRequestJson | undefined
  /**
   * The vault's secrets that may fill `{{.key}}`, at most 10; nobody outside the enclave sees them.
   */
  readonly vaultDonSecrets?: readonly (SecretIdentifier | SecretIdentifierJson)[] | undefined
}

/** ConfidentialHTTPRequest in plain JSON. */
export interface ConfidentialHTTPRequestJson {
  /** The request that is made inside the enclave. */
  readonly request?: HTTPRequestJson | undefined
  /**
   * The vault's secrets that may fill `{{.key}}`, at most 10; nobody outside the enclave sees them.
   */
  readonly vaultDonSecrets?: readonly SecretIdentifierJson[] | undefined
}

/**
 * The optional fields of an HTTPRequest, with the forms that its bytes, headers and times may have.
 */
interface HTTPRequestFields<Bytes, Header, Time> {
  /** The body as a template: the way to put secrets into it. */
  readonly bodyString?: string | undefined
  /** The body as raw bytes; a string is their base64. Placeholders are not filled here. */
  readonly bodyBytes?: Bytes | undefined
  /** The request's headers; each has a list of values, and each value is a template. */
  readonly multiHeaders?: { readonly [name: string]: Header | undefined } | undefined
  /**
   * Values that are not secret and fill placeholders in body and headers. They come before secrets
   * of the same name.
   */
  readonly templatePublicValues?: { readonly [name: string]: string | undefined } | undefined
  /** The root certificate that verifies the server's certificate: PEM, or base64 of PEM. */
  readonly customRootCaCertPem?: Bytes | undefined
  /**
   * How long the request may take: `'5s'`, `'1.5s'`, `'200ms'`, `'1m'`, or in a message `{ seconds,
   * nanos }`.
   */
  readonly timeout?: Time | undefined
  /** Whether the body of the response is encrypted inside the enclave. @default false */
  readonly encryptOutput?: boolean | undefined
  /**
   * How a body that is encrypted under an AES key is laid out: as the reference does, bound to
   * nothing, or bound to its status and to `requestId`. @default 'reference'
   */
  readonly outputLayout?: 'reference' | 'bound-v1' | undefined
  /** What the body is bound to: 1 to 128 visible characters of ASCII, another for each request. */
  readonly requestId?: string | undefined
}

/**
 * A request to an external API. The body is one of `bodyString` and `bodyBytes`, or a message's
 * `body`.
 */
export interface HTTPRequest
  extends HTTPRequestFields<
    Uint8Array | string,
    HeaderValues | HeaderValuesJson,
    Duration | DurationJson
  > {
  /** The name of the protobuf message, where an SDK made the object; ignored. */
  readonly $typeName?: MessageName<'HTTPRequest'>
  /** The URL of the API's endpoint, absolute. Placeholders are not filled here. */
  readonly url: string
  /** The HTTP method, such as GET or POST, in either case. */
  readonly method: string
  /** The body as protobuf messages hold it. */
  readonly body?: HTTPRequestBody | undefined
}

/** The one body of a request, as protobuf messages hold it. */
export type HTTPRequestBody =
  | { readonly case: 'bodyString'; readonly value: string }
  | { readonly case: 'bodyBytes'; readonly value: Uint8Array }
  | { readonly case: undefined; readonly value?: undefined }

/** HTTPRequest in plain JSON. */
export interface HTTPRequestJson extends HTTPRequestFields<string, HeaderValuesJson, DurationJson> {
  /** The URL of the API's endpoint, absolute; required. Placeholders are not filled here. */
  readonly url?: string | undefined
  /** The HTTP method, such as GET or POST, in either case; required. */
  readonly method?: string | undefined
}

/** The answer to a confidential request. */
export interface HTTPResponse {
  /** The name of the protobuf message, where an SDK made the object. */
  readonly $typeName?: MessageName<'HTTPResponse'>
  /** The HTTP status. */
  readonly statusCode: number
  /** The body; encrypted if `encryptOutput` was true. */
  readonly body: Uint8Array
  /** The response's headers; each has a list of values. */
  readonly multiHeaders: { readonly [name: string]: HeaderValues }
}

/** HTTPResponse in plain JSON; absent fields are 0 or empty. */
export interface HTTPResponseJson {
  /** The HTTP status. */
  readonly statusCode?: number | undefined
  /** The body in base64; encrypted if `encryptOutput` was true. */
  readonly body?: string | undefined
  /** The response's headers; each has a list of values. */
  readonly multiHeaders?: { readonly [name: string]: HeaderValuesJson | undefined } | undefined
}

/** Names a secret of the vault. */
export interface SecretIdentifier {
  /** The name of the protobuf message, where an SDK made the object; ignored. */
  readonly $typeName?: MessageName<'SecretIdentifier'>
  /** The secret's name, and that of its placeholder: `myApiKey` fills `{{.myApiKey}}`. */
  readonly key: string
  /** The secret's namespace. @default 'main' */
  readonly namespace?: string | undefined
  /** The address of the secret's owner. */
  readonly owner?: string | undefined
}

/** SecretIdentifier in plain JSON. */
export interface SecretIdentifierJson extends Pick<SecretIdentifier, 'namespace' | 'owner'> {
  /** The secret's name, and that of its placeholder: `myApiKey` fills `{{.myApiKey}}`; required. */
  readonly key?: string | undefined
}

/** The values of one header. */
export interface HeaderValues {
  /** The name of the protobuf message, where an SDK made the object; ignored. */
  readonly $typeName?: MessageName<'HeaderValues'>
  /** In a request each is a template, such as `Bearer {{.token}}`. */
  readonly values: readonly string[]
}

/** HeaderValues in plain JSON. */
export interface HeaderValuesJson {
  /** In a request each is a template, such as `Bearer {{.token}}`. */
  readonly values?: readonly string[] | undefined
}

/** A length of time: the sum of both fields. */
export interface Duration {
  /** The name of the protobuf message, where an SDK made the object; ignored. */
  readonly $typeName?: 'google.protobuf.Duration'
  /** Whole seconds, at most 315,576,000,000. */
  readonly seconds: bigint | number | string
  /** Billionths of a second, 0 to 999,999,999. @default 0 */
  readonly nanos?: number | undefined
}

/** Duration in plain JSON: a number of at most 9 decimals, followed by `s`, `ms` or `m`. */
export type DurationJson = string
