import { isStreamsError } from 'sluice/core'
import { VaultError } from 'sluice/plugins/confidential-http'
import type { Result } from '../capability.js'
import { once } from '../once.js'
import type { ReleasedSecret, SecretKey } from '../thread/thread-messages.js'
import type { SecretRequest, WorkflowSecret } from './workflow-types.js'

/** Asks the enclave for the values of secrets. The returned function blocks until they have arrived. */
export type ReadSecrets = (names: readonly SecretKey[]) => () => readonly ReleasedSecret[]

/** Requests several secrets for a workflow, and adds the advice of the real SDK to errors. */
export function requestSecrets(
  readSecrets: ReadSecrets,
  requests: readonly SecretRequest[],
): Result<Record<string, WorkflowSecret>> {
  return request(
    readSecrets,
    requests,
    why =>
      `batch secret retrieval failed for ${requests.length} request(s):\n${why}\nVerify the host response is complete and that the workflow has access to the requested secrets`,
  )
}

/** Requests one secret for a workflow, and adds the advice of the real SDK to errors. */
export function requestSecret(
  readSecrets: ReadSecrets,
  { id = '', namespace }: SecretRequest,
): Result<WorkflowSecret> {
  const secrets = request(
    readSecrets,
    [{ id, namespace }],
    why =>
      `secret retrieval failed for ${id || 'unknown'} (namespace: ${namespace || 'main'}): ${why}. Verify the secret name is correct and that the secret has been configured for this workflow`,
  )
  return { result: () => secrets.result()[id] as WorkflowSecret }
}

function request(
  readSecrets: ReadSecrets,
  requests: readonly SecretRequest[],
  describe: (why: string) => string,
): Result<Record<string, WorkflowSecret>> {
  const names = requests.map(({ id, namespace }) => ({
    key: id ?? '',
    // An empty namespace is main for the vault and the real SDK, too.
    namespace: namespace || 'main',
  }))
  const twice = names.find(({ key }, index) => names.findIndex(each => each.key === key) < index)
  if (twice !== undefined) {
    const error = new VaultError(describe(`duplicate secret id requested: ${twice.key}`))
    return { result: throwing(error) }
  }
  if (names.length === 0) return { result: () => ({}) }
  const read = readSecrets(names)
  return {
    result: once(function readResult() {
      let values: readonly ReleasedSecret[]
      try {
        values = read()
      } catch (thrown) {
        if (!isStreamsError(thrown)) throw thrown
        throw new VaultError(describe(thrown.message), { code: thrown.code, cause: thrown })
      }
      return Object.fromEntries(
        names.map(({ key, namespace }, index) => {
          const value = values[index] as ReleasedSecret
          return [key, { $typeName: 'sdk.v1alpha.Secret', id: key, namespace, ...value }]
        }),
      )
    }),
  }
}

/** Returns a function that throws the error. */
export function throwing(error: Error): () => never {
  return function throwError() {
    throw error
  }
}
