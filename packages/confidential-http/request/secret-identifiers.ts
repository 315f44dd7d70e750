import { ValidationError } from 'sluice/core'
import { type Field, openMessage, readList, readString, readText } from './fields.js'
import { type SecretIdentifierMessage, TYPE_NAMES } from './message.js'

const MAX_SECRETS = 10
const MAX_LENGTH = 64

const SECRET_IDENTIFIER = {
  typeName: TYPE_NAMES.SecretIdentifier,
  fields: ['key', 'namespace', 'owner'],
  hints: { id: 'give key', name: 'give key' },
} as const

/** Reads the secrets a request may use: at most 10, each with its own key, because placeholders find a secret by its key. */
export function readSecretIdentifiers(field: Field): SecretIdentifierMessage[] {
  const secrets = readList(field, MAX_SECRETS, readSecretIdentifier)
  secrets.forEach(function checkDuplicate(secret, at) {
    const before = secrets.findIndex(each => each.key === secret.key)
    const first = secrets[before]
    if (before === at || first === undefined) return
    const path = `${field.path}[${at}]`
    throw new ValidationError(
      first.namespace === secret.namespace && first.owner === secret.owner
        ? `${path} must not repeat ${field.path}[${before}]: duplicate request for secret identifier`
        : `${path}.key must not be that of ${field.path}[${before}]: placeholders find a secret by its key alone`,
    )
  })
  return secrets
}

function readSecretIdentifier(element: Field): SecretIdentifierMessage {
  const field = openMessage(element, SECRET_IDENTIFIER)
  const owner = readName(field('owner'))
  return {
    $typeName: TYPE_NAMES.SecretIdentifier,
    key: checkName(field('key'), readText(field('key'))),
    namespace: readName(field('namespace')) ?? 'main',
    ...(owner !== undefined && { owner }),
  }
}

/** Reads a name that may be absent; an empty one counts as absent. */
function readName(field: Field): string | undefined {
  const name = field.value === undefined ? '' : readString(field)
  return name === '' ? undefined : checkName(field, name)
}

function checkName({ path }: Field, name: string): string {
  if (!/^[a-zA-Z0-9_]+$/.test(name))
    throw new ValidationError(`${path} must only have letters, digits and underscores`)
  if (name.length > MAX_LENGTH)
    throw new ValidationError(`${path} must have at most ${MAX_LENGTH} characters`)
  return name
}
