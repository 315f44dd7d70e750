import type { ConfidentialCall, ConnectionRules } from '../call.js'
import { EnclaveError } from '../errors.js'
import { findViolation, type SecretUse } from '../secret-policy.js'

/** Holds the secrets that are put into one request to their policies. */
export interface PolicyGuard {
  /** Called before a secret is put into a place. Throws EnclaveError, code `SECRET_POLICY`, if it may not go there. */
  use(key: string, place: string): void
  /** Holds the secrets that were put into the request to its method and URL as they are then. */
  readonly checkTarget: NonNullable<ConnectionRules['checkTarget']>
}

/** Makes the guard of a request. `warned` has the secrets without a policy that were warned of. */
export function createPolicyGuard(
  call: ConfidentialCall,
  requirePolicies: boolean,
  warned: Set<string>,
): PolicyGuard {
  const { customRootCaCertPem, connection, policies, scope, secrets } = call
  const hasCustomRoots = customRootCaCertPem !== undefined
  const headers = [...call.multiHeaders.keys(), ...call.headers.keys()]
  const used = new Map<string, SecretUse>()

  function check(key: string, use: SecretUse, target: Parameters<typeof findViolation>[1]): void {
    const violation = findViolation(use, target)
    if (violation !== undefined) throw notAllowed(key, violation)
  }

  return {
    use(key, place) {
      const policy = policies.get(key)
      if (policy !== undefined) {
        used.set(key, policy)
        check(key, policy, {
          ...{ method: call.method, url: call.url },
          ...{ place, hasCustomRoots, headers },
        })
        return
      }
      if (requirePolicies) throw notAllowed(key, 'it has no policy, which this enclave asks for')
      const { owner, namespace } = secrets.find(each => each.key === key) ?? {}
      const name = `${owner}/${namespace}/${key}`
      if (warned.has(name)) return
      warned.add(name)
      scope.log.warn?.(`secret ${key} has no policy: it may go anywhere`)
    },
    checkTarget(target) {
      connection.checkTarget?.(target)
      for (const [key, policy] of used) check(key, policy, { ...target, hasCustomRoots })
    },
  }
}

function notAllowed(key: string, rule: string): EnclaveError {
  return new EnclaveError(`secret ${key}: ${rule}; nothing was sent`, { code: 'SECRET_POLICY' })
}
