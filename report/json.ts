/**
 * A value as JSON has it: each bigint is a decimal string, an object with a `toJSON` is what that gives, everything else is as
 * it was.
 */
export type JSONOf<Value> = Value extends bigint
  ? string
  : Value extends string | number | boolean | null | undefined
    ? Value
    : Value extends {
          /** What `JSON.stringify` calls. */ toJSON(): infer Given
        }
      ? Given
      : Value extends object
        ? { readonly [Name in keyof Value]: JSONOf<Value[Name]> }
        : Value

/**
 * Copies a value with each bigint as a decimal string, so that `JSON.stringify` takes it: for copies of decoded reports, and
 * for objects of yours that hold bigints. Reports and what `decodeReport` gives need no help.
 *
 * @example
 * ```ts
 * JSON.stringify(toJSON({ ...decoded, receivedAt: Date.now() }))
 * ```
 */
export function toJSON<Value>(value: Value): JSONOf<Value> {
  return convert(value) as JSONOf<Value>
}

function convert(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (typeof value !== 'object' || value === null) return value
  if ('toJSON' in value && typeof value.toJSON === 'function') return value.toJSON()
  return Array.isArray(value) ? value.map(convert) : fieldsToJSON(value)
}

/** The fields of an object, each as JSON has it. */
export function fieldsToJSON(value: object): object {
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, convert(each)]))
}
