/**
 * The type of a value in JSON. A bigint becomes a decimal string. An object with a method `toJSON`
 * becomes the result of this method. Everything else stays as it is.
 */
export type JSONOf<Value> = Value extends bigint
  ? string
  : Value extends string | number | boolean | null | undefined
    ? Value
    : Value extends {
          /** The method that `JSON.stringify` calls. */
          toJSON(): infer Given
        }
      ? Given
      : Value extends object
        ? { readonly [Name in keyof Value]: JSONOf<Value[Name]> }
        : Value

/**
 * Copies a value, with each bigint as a decimal string, so that `JSON.stringify` accepts it. Use it
 * for copies of decoded reports, and for your own objects with bigints. Reports and the results of
 * `decodeReport` do not need it.
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

/** Copies the fields of an object, each in the form for JSON. */
export function fieldsToJSON(value: object): object {
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, convert(each)]))
}
