import { readVectors } from '../files.js'

/** A field of a report blob, as a line of report-schemas.json has it. */
export interface SchemaField {
  readonly name: string
  /** The ABI type. */
  readonly type: string
  /** Of a time or a number, where one is said: `s`, `ms`, `ns`, or a range in words. */
  readonly unit: string | undefined
}

/** A reading of a field that was not followed. */
export interface Disagreement {
  readonly witnesses: readonly string[]
  readonly says: string
  readonly taken: string
  readonly why: string
}

/** The schema of one version: ours, and that of each witness. */
export interface VersionSchema {
  readonly version: number
  readonly fields: readonly SchemaField[]
  readonly witnesses: ReadonlyMap<string, readonly SchemaField[]>
  readonly disagreements: readonly Disagreement[]
}

interface Recorded {
  readonly fields: readonly string[]
  readonly witnesses: Readonly<Record<string, readonly string[]>>
  readonly disagreements: readonly Disagreement[]
}

const recorded: { readonly versions: Readonly<Record<string, Recorded>> } =
  readVectors('report-schemas.json')

/** Reads a line such as `uint64 navDate [ms]`. */
export function readField(line: string): SchemaField {
  const [, type, name, unit] = /^(\w+) (\w+)(?: \[(.+)\])?$/.exec(line) ?? []
  if (type === undefined || name === undefined) throw new Error(`${line} is no field`)
  return { name, type, unit }
}

/** Every version of the table, V1 first. */
export const allSchemas: readonly VersionSchema[] = Object.entries(recorded.versions).map(
  ([label, { fields, witnesses, disagreements }]) => ({
    version: Number(label.slice(1)),
    fields: fields.map(readField),
    witnesses: new Map(
      Object.entries(witnesses).map(([name, lines]) => [name, lines.map(readField)]),
    ),
    disagreements,
  }),
)

/** The versions that have the common head: V2 and later. */
export const schemas: readonly VersionSchema[] = allSchemas.filter(({ version }) => version >= 2)

/** The fields of a version's blob as its feeds encode them: in milliseconds the times of the head are uint64. */
export function fieldsOnWire(version: number, resolution: 's' | 'ms'): readonly SchemaField[] {
  const schema = schemas.find(schema => schema.version === version)
  if (schema === undefined) throw new Error(`the table has no V${version}`)
  return schema.fields.map((field, index) =>
    resolution === 'ms' && index < 6 && field.type === 'uint32'
      ? { ...field, type: 'uint64', unit: 'ms' }
      : field,
  )
}
