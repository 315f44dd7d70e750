/** The full protobuf name of a message. */
export type MessageName<Message extends string> =
  `capabilities.networking.confidentialhttp.v1alpha.${Message}`

/**
 * A confidential request. It has an HTTP request, and the secrets that may be put into the HTTP
 * request.
 */
export interface ConfidentialHTTPRequest {
  /** The name of the protobuf message, if an SDK made the object. It is ignored. */
  readonly $typeName?: MessageName<'ConfidentialHTTPRequest'>
  /** The request that is made inside the enclave. */
  readonly request?: HTTPRequest | HTTPRequestJson | undefined
  /**
   * The vault's secrets that may fill placeholders such as `{{.key}}`, at most 10. Nobody outside
   * the enclave sees their values.
   */
  readonly vaultDonSecrets?: readonly (SecretIdentifier | SecretIdentifierJson)[] | undefined
}

/** ConfidentialHTTPRequest in plain JSON. */
export interface ConfidentialHTTPRequestJson {
  /** The request that is made inside the enclave. */
  readonly request?: HTTPRequestJson | undefined
  /**
   * The vault's secrets that may fill placeholders such as `{{.key}}`, at most 10. Nobody outside
   * the enclave sees their values.
   */
  readonly vaultDonSecrets?: readonly SecretIdentifierJson[] | undefined
}

/**
 * The optional fields of an HTTPRequest. The type parameters are the forms of its bytes, headers
 * and times.
 */
interface HTTPRequestFields<Bytes, Header, Time> {
  /** The body as a template. Use this field to put secrets into the body. */
  readonly bodyString?: string | undefined
  /** The body as raw bytes, or as their base64 in a string. Placeholders are not filled here. */
  readonly bodyBytes?: Bytes | undefined
  /** The request's headers. Each has a list of values, and each value is a template. */
  readonly multiHeaders?: { readonly [name: string]: Header | undefined } | undefined
  /**
   * The public values that fill placeholders in body and headers. A public value takes precedence
   * over a secret of the same name.
   */
  readonly templatePublicValues?: { readonly [name: string]: string | undefined } | undefined
  /** The root certificates that verify the server's certificate, as PEM or base64 of PEM. */
  readonly customRootCaCertPem?: Bytes | undefined
  /**
   * How long the request may take, for example `'5s'`, `'1.5s'`, `'200ms'` or `'1m'`. In a message
   * it is `{ seconds, nanos }`.
   */
  readonly timeout?: Time | undefined
  /** Whether the body of the response is encrypted inside the enclave. @default false */
  readonly encryptOutput?: boolean | undefined
  /**
   * The layout of a body that is encrypted under an AES key. A body in the layout `reference` is
   * bound to nothing. A body in the layout `bound-v1` is bound to its status and to `requestId`.
   * @default 'reference'
   */
  readonly outputLayout?: 'reference' | 'bound-v1' | undefined
  /**
   * The id that the body is bound to: 1 to 128 visible ASCII characters. Use a different id for
   * each request.
   */
  readonly requestId?: string | undefined
}

/**
 * A request to an external API. Give the body in only one of `bodyString`, `bodyBytes` and, in a
 * message, `body`.
 */
export interface HTTPRequest
  extends HTTPRequestFields<
    Uint8Array | string,
    HeaderValues | HeaderValuesJson,
    Duration | DurationJson
  > {
  /** The name of the protobuf message, if an SDK made the object. It is ignored. */
  readonly $typeName?: MessageName<'HTTPRequest'>
  /** The absolute URL of the API's endpoint. Placeholders are not filled here. */
  readonly url: string
  /** The HTTP method, such as GET or POST, in upper or lower case. */
  readonly method: string
  /** The body in the form of a protobuf message. */
  readonly body?: HTTPRequestBody | undefined
}

/** The body of a request, in the form of a protobuf message. */
export type HTTPRequestBody =
  | { readonly case: 'bodyString'; readonly value: string }
  | { readonly case: 'bodyBytes'; readonly value: Uint8Array }
  | { readonly case: undefined; readonly value?: undefined }

/** HTTPRequest in plain JSON. */
export interface HTTPRequestJson extends HTTPRequestFields<string, HeaderValuesJson, DurationJson> {
  /** The absolute URL of the API's endpoint. It is required. Placeholders are not filled here. */
  readonly url?: string | undefined
  /** The HTTP method, such as GET or POST, in upper or lower case. It is required. */
  readonly method?: string | undefined
}

/** The answer to a confidential request. The helpers of the workflow SDK take it, too. */
export interface HTTPResponse {
  /** The name of the protobuf message. */
  readonly $typeName: MessageName<'HTTPResponse'>
  /** The HTTP status. */
  readonly statusCode: number
  /** The body. It is encrypted if `encryptOutput` was true. */
  readonly body: Uint8Array
  /** The response's headers. Each has a list of values. */
  readonly multiHeaders: { readonly [name: string]: HeaderValuesMessage }
}

/** The values of one header of a response. */
export interface HeaderValuesMessage {
  /** The name of the protobuf message. */
  readonly $typeName: MessageName<'HeaderValues'>
  /** The values. */
  readonly values: string[]
}

/** What is read as a response: the names of its messages may be missing. */
export interface HTTPResponseLike extends Pick<HTTPResponse, 'statusCode' | 'body'> {
  /** The name of the protobuf message. */
  readonly $typeName?: MessageName<'HTTPResponse'>
  /** The response's headers. Each has a list of values. */
  readonly multiHeaders: { readonly [name: string]: HeaderValues }
}

/** HTTPResponse in plain JSON. Absent fields are 0 or empty. */
export interface HTTPResponseJson {
  /** The HTTP status. */
  readonly statusCode?: number | undefined
  /** The body in base64. It is encrypted if `encryptOutput` was true. */
  readonly body?: string | undefined
  /** The response's headers. Each has a list of values. */
  readonly multiHeaders?: { readonly [name: string]: HeaderValuesJson | undefined } | undefined
}

/** The name of a secret in the vault. */
export interface SecretIdentifier {
  /** The name of the protobuf message, if an SDK made the object. It is ignored. */
  readonly $typeName?: MessageName<'SecretIdentifier'>
  /** The name of the secret and of its placeholder: `myApiKey` fills `{{.myApiKey}}`. */
  readonly key: string
  /** The secret's namespace. @default 'main' */
  readonly namespace?: string | undefined
  /** The address of the secret's owner. */
  readonly owner?: string | undefined
}

/** SecretIdentifier in plain JSON. */
export interface SecretIdentifierJson extends Pick<SecretIdentifier, 'namespace' | 'owner'> {
  /**
   * The name of the secret and of its placeholder: `myApiKey` fills `{{.myApiKey}}`. It is
   * required.
   */
  readonly key?: string | undefined
}

/** The values of one header. */
export interface HeaderValues {
  /** The name of the protobuf message, if an SDK made the object. It is ignored. */
  readonly $typeName?: MessageName<'HeaderValues'>
  /** The values. In a request each value is a template, such as `Bearer {{.token}}`. */
  readonly values: readonly string[]
}

/** HeaderValues in plain JSON. */
export interface HeaderValuesJson {
  /** The values. In a request each value is a template, such as `Bearer {{.token}}`. */
  readonly values?: readonly string[] | undefined
}

/** A length of time. It is the sum of both fields. */
export interface Duration {
  /** The name of the protobuf message, if an SDK made the object. It is ignored. */
  readonly $typeName?: 'google.protobuf.Duration'
  /** Whole seconds, at most 315,576,000,000. */
  readonly seconds: bigint | number | string
  /** Billionths of a second, 0 to 999,999,999. @default 0 */
  readonly nanos?: number | undefined
}

/** Duration in plain JSON: a number of at most 9 decimals, followed by `s`, `ms` or `m`. */
export type DurationJson = string
