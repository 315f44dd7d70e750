import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { parse } from 'yaml'
import { read } from './sources.js'

/** A parameter of an operation. */
export interface Parameter {
  readonly name: string
  readonly required: boolean
  /** True for a list that is separated by commas. */
  readonly isList: boolean
  accepts(value: string): boolean
}

/** An operation of docs/openapi.yaml. */
export interface Operation {
  readonly id: string
  readonly path: string
  /** In upper case. */
  readonly method: string
  readonly tags: readonly string[]
  readonly parameters: readonly Parameter[]
  readonly statuses: readonly number[]
  /** Undefined for an operation without a body. */
  acceptsBody: ((body: unknown) => boolean) | undefined
  /** Says what is wrong with an answer; undefined if it is as documented. */
  refuse(status: number, contentType: string, body: unknown): string | undefined
}

type Node = Readonly<Record<string, unknown>>

const document = parse(read('docs/openapi.yaml')) as Node
const ajv = new Ajv2020({ strict: false, allErrors: true })
ajv.addSchema({ ...document, $id: 'openapi' })

/** The schema at a place of the document, compiled. */
function compile(...place: readonly string[]): ValidateFunction {
  const pointer = place.map(each => each.replaceAll('~', '~0').replaceAll('/', '~1')).join('/')
  return ajv.compile({ $ref: `openapi#/${encodeURI(pointer)}` })
}

/** The place of a node, after a reference. */
function follow(place: readonly string[]): readonly string[] {
  const node = find(place)
  return typeof node.$ref === 'string' ? node.$ref.slice(2).split('/') : place
}

function find(place: readonly string[]): Node {
  return place.reduce<Node>((node, name) => node[name] as Node, document)
}

function readParameter(place: readonly string[]): Parameter {
  const at = follow(place)
  const { name, required = false } = find(at) as {
    readonly name: string
    readonly required?: boolean
  }
  const validate = compile(...at, 'schema')
  const schema = find(follow([...at, 'schema']))
  const isList = schema.type === 'array'
  return {
    name,
    required,
    isList,
    accepts(value) {
      const parsed =
        schema.type === 'integer'
          ? /^\d+$/.test(value)
            ? Number(value)
            : value
          : schema.type === 'boolean'
            ? ({ true: true, false: false }[value] ?? value)
            : isList
              ? value.split(',')
              : value
      return validate(parsed)
    },
  }
}

function readOperation(path: string, method: string): Operation {
  const place = ['paths', path, method]
  const operation = find(place) as {
    readonly operationId: string
    readonly tags: readonly string[]
    readonly parameters?: readonly unknown[]
    readonly responses: Readonly<Record<string, unknown>>
    readonly requestBody?: unknown
  }
  const validators = new Map<string, ValidateFunction>()
  for (const status of Object.keys(operation.responses)) {
    const response = follow([...place, 'responses', status])
    for (const type of Object.keys(find([...response, 'content'])))
      validators.set(`${status} ${type}`, compile(...response, 'content', type, 'schema'))
  }
  return {
    id: operation.operationId,
    path,
    method: method.toUpperCase(),
    tags: operation.tags,
    parameters: (operation.parameters ?? []).map((_, index) =>
      readParameter([...place, 'parameters', String(index)]),
    ),
    statuses: Object.keys(operation.responses).map(Number),
    acceptsBody:
      operation.requestBody === undefined
        ? undefined
        : body => compile(...place, 'requestBody', 'content', 'application/json', 'schema')(body),
    refuse(status, contentType, body) {
      const validate = validators.get(`${status} ${contentType.split(';')[0]}`)
      if (validate === undefined) return `${status} ${contentType} is not documented`
      return validate(body) ? undefined : ajv.errorsText(validate.errors)
    },
  }
}

/** The operations of the REST interface, by their ids. */
export const operations: ReadonlyMap<string, Operation> = new Map(
  Object.entries(document.paths as Node).flatMap(([path, methods]) =>
    Object.keys(methods as Node).map(method => {
      const operation = readOperation(path, method)
      return [operation.id, operation] as const
    }),
  ),
)
