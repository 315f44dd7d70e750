/** The codes of answers that this package deals with, by the names that it gives them. */
const codes = {
  otherSettings: [10_013, 10_148],
  noConsumer: [10_014],
  noMessage: [10_037],
  streamExists: [10_058],
  noStream: [10_059],
  wrongRevision: [10_071, 10_164],
} as const

/** True if `thrown` is an answer of the server with this error. */
export function isAPIError(thrown: unknown, error: keyof typeof codes): boolean {
  const { code } = (thrown ?? {}) as { readonly code?: unknown }
  return codes[error].some(each => each === code)
}

const expected: ReadonlySet<unknown> = new Set(Object.values(codes).flat())

/** What to set after an answer of the server, by the code of the answer. */
const remedies: Readonly<Record<number, string>> = {
  10002: 'the account is full: raise its max_file, or lower the max_bytes of its streams',
  10005:
    'servers with JetStream are missing, or have no room: start them, or set fewer replicas (create.replicas of a relay)',
  10026: 'raise max_consumers of the account and of the stream, or delete a consumer',
  10027: 'raise max_streams of the account, or delete a stream',
  10028:
    'lower the max_bytes of the streams in memory, or raise max_mem of the account or max_memory_store of the servers',
  10039: 'set jetstream: enabled for the account',
  10047:
    'the max_bytes of all streams together are too many: set fewer bytes (create.bytes of a relay), lower those of another stream, or raise max_file of the account or max_file_store of the servers',
  10052: 'look at the block limits of the servers, such as its duplicate_window',
  10065:
    'another stream of the account stores these subjects: set another prefix, or remove them there',
  10074: 'set replicas to 1 (create.replicas of a relay), or connect to a cluster',
  10113: 'set bytes (create.bytes of a relay)',
  10120:
    'the account has no limits for so many copies: set other replicas (create.replicas of a relay)',
  10121: 'raise max_ack_pending of the account and of the block limits of the servers to 10000',
  10122: 'set fewer bytes (create.bytes of a relay), or raise disk_max_stream_bytes of the account',
}

/**
 * Refusals that may pass, although they have a remedy: the other servers of a cluster may be about
 * to start.
 */
const passing: ReadonlySet<unknown> = new Set([10_005])

/** The code of a message that could not be stored. Its text has the reason. */
const NOT_STORED = 10_077
const FULL = /maximum (bytes|messages) exceeded/

/** The part of an answer, or of the library's error for it, that says what is wrong. */
interface Answer {
  readonly name?: unknown
  readonly message?: string
  readonly code?: unknown
  /** As in HTTP: 400 for a wrong request, 503 for a server that can't answer it now. */
  readonly status?: unknown
  readonly cause?: unknown
}

/** Adds to the message of an error what has to be set; nothing if that is not known. */
export function withRemedy(message: string, thrown: unknown): string {
  const remedy = remedyOf(thrown)
  return remedy === undefined ? message : `${message}: ${remedy}`
}

/** Says what has to be set before NATS can do what it refused to do; undefined if not known. */
function remedyOf(thrown: unknown): string | undefined {
  const { name, message = '', code, cause } = (thrown ?? {}) as Answer
  if (isDenied(message)) return 'give the user of the connection this permission'
  if (name === 'JetStreamNotEnabled') return remedyOf(cause)
  if (code === NOT_STORED && FULL.test(message))
    return 'the stream is full: raise its max_bytes or max_msgs, such as with nats stream edit'
  return remedies[code as number]
}

/**
 * The one rule by which a failure is final or is tried again. What a setting forbids stays so, and
 * so does a request that the server can't take. Everything else may pass: a server that does not
 * answer, an election, an overload, a stream that is about to be made.
 */
export function isRefusal(thrown: unknown): boolean {
  const { name, code, status, cause } = (thrown ?? {}) as Answer
  if (passing.has(code) || expected.has(code)) return false
  if (name === 'JetStreamNotEnabled') return isRefusal(cause)
  return status === 400 || remedyOf(thrown) !== undefined
}

/** True if NATS does not permit something to the user of the connection. */
export function isDenied(message: string): boolean {
  return /permissions violation/i.test(message)
}
