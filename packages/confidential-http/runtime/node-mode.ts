import { ValidationError } from 'sluice/core'
import { EnclaveError } from 'sluice/plugins/confidential-http'

/**
 * The rule by which the observations of a network's nodes become one result. It has only the parts
 * of the real SDK's type that a single node uses.
 */
export interface ConsensusAggregation<Input> {
  /** A ConsensusDescriptor message. */
  readonly descriptor: unknown
  /** The result if the observation fails. A falsy value is ignored, as in the real SDK. */
  readonly defaultValue?: Input
}

const FREQUENCY_LIST = 5

/**
 * The result of a network with one node. It is the node's observation as the network would return
 * it, without the ignored fields.
 */
export function observeOnce<Input>(
  observe: () => Input,
  { descriptor, defaultValue }: ConsensusAggregation<Input>,
): () => unknown {
  checkDescriptor(descriptor)
  try {
    const observation = withoutIgnored(copyValue(observe()), descriptor)
    return () => observation
  } catch (thrown) {
    if (defaultValue) {
      const value = withoutIgnored(copyValue(defaultValue), descriptor)
      return () => value
    }
    const error = new EnclaveError((thrown instanceof Error && thrown.message) || String(thrown), {
      code: 'CAPABILITY',
      mayHaveBeenSent: false,
      cause: thrown,
    })
    return () => {
      throw error
    }
  }
}

/** Converts a result with `unwrapOptions`. */
export function unwrapValue(value: unknown, options: unknown): unknown {
  if (typeof options !== 'object' || options === null) return value
  const { schema, factory } = options as {
    readonly schema?: { parse(value: unknown): unknown }
    readonly factory?: () => object
  }
  if ('instance' in options) {
    if (typeof value === typeof options.instance) return value
    throw new ValidationError(`Cannot unwrap to type ${typeof options.instance}`)
  }
  if (schema !== undefined) return schema.parse(value)
  if (factory === undefined) throw new ValidationError('unwrapOptions must have schema or factory')
  if (typeof value === 'object' && value !== null) return Object.assign(factory(), value)
  throw new ValidationError(
    'Cannot copy properties from primitive value to object instance. Use a schema instead.',
  )
}

interface Descriptor {
  readonly descriptor?: {
    readonly case?: unknown
    readonly value?: unknown
  }
}

function fieldsOf(descriptor: unknown): Readonly<Record<string, unknown>> | undefined {
  const { case: kind, value } = (descriptor as Descriptor | undefined)?.descriptor ?? {}
  return kind === 'fieldsMap' ? (value as { fields: Record<string, unknown> }).fields : undefined
}

/** Rejects frequency lists, because they count the observations of several nodes. */
function checkDescriptor(descriptor: unknown): void {
  const { case: kind, value } = (descriptor as Descriptor | undefined)?.descriptor ?? {}
  if (kind === 'aggregation' && value === FREQUENCY_LIST)
    throw new EnclaveError('this runtime is a single node: it makes no frequency lists', {
      code: 'CAPABILITY',
      mayHaveBeenSent: false,
    })
  for (const field of Object.values(fieldsOf(descriptor) ?? {})) checkDescriptor(field)
}

function withoutIgnored(value: unknown, descriptor: unknown): unknown {
  const fields = fieldsOf(descriptor)
  if (fields === undefined || !isPlain(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => fields[name] !== undefined)
      .map(([name, each]) => [name, withoutIgnored(each, fields[name])]),
  )
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
  )
}

/**
 * Copies a value as a network would return it. Instances of classes become plain objects, and a
 * value without an encoding causes an error.
 */
function copyValue(value: unknown): unknown {
  if (value === null || value === undefined)
    throw new ValidationError('cannot wrap null/undefined into Value')
  if (typeof value === 'function' || typeof value === 'symbol')
    throw new ValidationError(`unsupported type: ${typeof value}`)
  if (typeof value !== 'object') return value
  if (value instanceof Uint8Array) return Uint8Array.from(value)
  if (value instanceof ArrayBuffer) return new Uint8Array(value.slice(0))
  if (value instanceof Date) return new Date(value)
  if (Array.isArray(value)) return value.map(copyValue)
  if (typeof (value as { then?: unknown }).then === 'function')
    throw new ValidationError('a function in node mode must not return a promise')
  const { unwrap } = value as { unwrap?: unknown }
  if (typeof unwrap === 'function') return copyValue(unwrap.call(value))
  if (isNumberObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, copyValue(each)]))
}

/** True for the SDK's Int64, UInt64 and Decimal. A network returns them unchanged. */
function isNumberObject(value: object): boolean {
  if (isPlain(value)) return false
  const names = Object.keys(value).sort().join()
  const [first] = Object.values(value)
  return (names === 'value' && typeof first === 'bigint') || names === 'coeffecient,exponent'
}
