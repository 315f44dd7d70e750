import { asError, DataStreamsError, isStreamsError, ValidationError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'

/** The parts of the library's errors that are read here. */
interface LibraryError extends Error {
  readonly code?: unknown
  /** The name of an error of the protocol. */
  readonly apiId?: unknown
  /** What the broker says of it. */
  readonly serverErrorMessage?: unknown
  readonly errors?: readonly unknown[]
}

/** What to do about errors that waiting does not mend, by the names of the protocol and of TLS. */
const advice: Readonly<Record<string, string>> = {
  SASL_AUTHENTICATION_FAILED: 'correct sasl.username and sasl.password',
  UNSUPPORTED_SASL_MECHANISM: 'give another sasl.mechanism',
  UNKNOWN_TOPIC_OR_PARTITION: 'create the topic, or set the option create',
  INVALID_TOPIC_EXCEPTION: 'give another topic: letters, digits, “.”, “_” and “-”, at most 249',
  TOPIC_AUTHORIZATION_FAILED:
    'allow the user to Describe and Write (with create, to Create) the topic',
  CLUSTER_AUTHORIZATION_FAILED:
    'allow the user IdempotentWrite (with create, Create) on the cluster',
  UNSUPPORTED_COMPRESSION_TYPE: 'give another compression',
  INVALID_PARTITIONS: 'correct create.partitions',
  INVALID_REPLICATION_FACTOR: 'give create.replicas no more than there are brokers',
  POLICY_VIOLATION: 'follow the policy of the cluster, or create the topic by hand',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'give the certificate of the broker’s authority as tls.ca',
  SELF_SIGNED_CERT_IN_CHAIN: 'give the certificate of the broker’s authority as tls.ca',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'give the certificate of the broker’s authority as tls.ca',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'give the certificate of the broker’s authority as tls.ca',
  ERR_TLS_CERT_ALTNAME_INVALID: 'name the broker as its certificate does',
  ERR_SSL_WRONG_VERSION_NUMBER: 'leave tls out, or give the port of a listener with TLS',
}

/** An error with all that lies under it, the causes of a cause last. */
function* walk(thrown: unknown, depth = 0): Generator<LibraryError> {
  if (depth > 8 || typeof thrown !== 'object' || thrown === null) return
  const error = thrown as LibraryError
  yield error
  for (const each of error.errors ?? []) yield* walk(each, depth + 1)
  yield* walk(error.cause, depth + 1)
}

/** True if the broker gave the error of this name. */
export function hasName(thrown: unknown, name: string): boolean {
  for (const { apiId } of walk(thrown)) if (apiId === name) return true
  return false
}

/** True if a topic does not exist. */
export function isUnknownTopic(thrown: unknown): boolean {
  for (const error of walk(thrown)) if (nameOf(error) === UNKNOWN_TOPIC) return true
  return false
}

const UNKNOWN_TOPIC = 'UNKNOWN_TOPIC_OR_PARTITION'

/** The name of an error in `advice`. */
function nameOf({ apiId, code, message }: LibraryError): string | undefined {
  // The library has no more than a text for a topic that its metadata lack.
  if (/^Unknown topic/.test(message)) return UNKNOWN_TOPIC
  return [apiId, code].map(String).find(name => Object.hasOwn(advice, name))
}

/**
 * The error for a failure of the library or of a broker. A failure that waiting does not mend is a
 * ValidationError that says what to do. Every other failure is retryable.
 */
export function kafkaError(name: string, what: string, thrown: unknown): DataStreamsError {
  if (isStreamsError(thrown)) return thrown
  const cause = foreignCause(thrown)
  const all = [...walk(thrown)]
  for (const error of all) {
    const known = nameOf(error)
    if (known === undefined) continue
    const message = `${name}: ${what}: ${textOf(error)}: ${advice[known]}`
    return new ValidationError(message, { cause })
  }
  const deepest = all.at(-1) ?? asError(thrown)
  return new DataStreamsError(`${name}: ${what}: ${textOf(deepest)}`, { cause, isRetryable: true })
}

function textOf({ message, apiId, serverErrorMessage }: LibraryError): string {
  const text = typeof serverErrorMessage === 'string' ? serverErrorMessage : message
  const said = text.replace(/\.$/, '')
  return typeof apiId === 'string' ? `${apiId} (${said})` : said
}
