import {
  checkBoolean,
  oneOf,
  readOptions,
  type Schema,
  withDefault,
} from '../../../core/options.js'
import {
  type ConfidentialCall,
  type ConnectionRules,
  type EnclavePlugin,
  requestSize,
} from '../call.js'
import { EnclaveError } from '../errors.js'
import {
  findViolation,
  isOverridingHeader,
  type SecretTarget,
  type SecretUse,
  unnamedHeaders,
} from '../secret.js'
import { type Room, renderTemplate } from './template.js'

/** Options of `templates`. */
export interface TemplatesOptions {
  /**
   * Refuses secrets that were stored without a policy. By default such a secret may go anywhere,
   * and a warning is logged.
   * @default false
   */
  readonly requirePolicies?: boolean
  /**
   * What to do if a request has a header that the policy of its secret does not allow. With `warn`,
   * the request is made, and a warning is logged once for each secret and header.
   * @default 'refuse'
   */
  readonly policyHeaders?: 'refuse' | 'warn'
}

const schema = {
  requirePolicies: withDefault(false, checkBoolean),
  policyHeaders: withDefault('refuse', oneOf('refuse', 'warn')),
} satisfies Schema<TemplatesOptions>

/**
 * The largest size of a filled request in bytes, if the stack has no `limits`. A limit is needed
 * because a few short templates can expand to any length.
 */
const MAX_FILLED = 1_024_000
/** After so many warnings, headers cause no more, because callers make up the names of headers. */
const MAX_WARNINGS = 1000

/**
 * Fills `{{.name}}` in header values and in a body that is text. Uses the public value of the name
 * if there is one, else the released secret. If the name has neither, the request fails. It also
 * fails if the policy of the secret does not allow the place or the target. Then nothing is sent.
 */
export function templates(options?: TemplatesOptions): EnclavePlugin {
  const rules = readOptions('templates', options, schema)
  const warned = new Set<string>()
  return {
    name: 'templates',
    attempt: next =>
      async function fillPlaceholders(call) {
        const { body } = call
        const filling = new Filling(call, rules, warned)
        const multiHeaders = filling.headers()
        const filled = typeof body === 'string' && {
          body: filling.fill('request.bodyString', body, 'body'),
        }
        const connection = { ...call.connection, checkTarget: filling.checkTarget }
        return next({ ...call, multiHeaders, ...filled, connection })
      },
  }
}

/**
 * Fills one request, and checks each secret that it puts into the request against the secret's
 * policy.
 */
class Filling {
  readonly #call: ConfidentialCall
  readonly #rules: Required<TemplatesOptions>
  /** The warnings that were logged, so that each is logged once. */
  readonly #warned: Set<string>
  readonly #hasCustomRoots: boolean
  readonly #headers: readonly string[]
  /** The policies of the secrets that were put into the request, by key. */
  readonly #used = new Map<string, SecretUse>()
  readonly #room: Room

  constructor(call: ConfidentialCall, rules: Required<TemplatesOptions>, warned: Set<string>) {
    const { url, body, multiHeaders, connection } = call
    this.#call = call
    this.#rules = rules
    this.#warned = warned
    this.#hasCustomRoots = call.customRootCaCertPem !== undefined
    this.#headers = [...multiHeaders.keys(), ...call.headers.keys()]
    // The parts that are not templates count towards the limit, too.
    const names = [...multiHeaders].map(([name, lines]) => [name, lines.map(() => '')] as const)
    const unfilled = requestSize({
      url,
      multiHeaders: new Map(names),
      ...(typeof body === 'object' && { body }),
    })
    this.#room = {
      left: (connection.maxRequestBytes ?? MAX_FILLED) - unfilled,
      isSecret: name => !call.publicValues.has(name),
    }
  }

  headers(): ConfidentialCall['multiHeaders'] {
    const filled = [...this.#call.multiHeaders].map(([name, lines]) => {
      const values = lines.map((line, index) => {
        const field = `request.multiHeaders.${name}.values[${index}]`
        const value = this.fill(field, line, `header:${name.toLowerCase()}`)
        // biome-ignore lint/suspicious/noControlCharactersInRegex: a header can't hold these
        if (!/[\x00-\x08\x0a-\x1f\x7f]/.test(value)) return value
        throw new EnclaveError(
          `${field} must not hold CR, LF, NUL or another control character once its placeholders are filled`,
          { code: 'TEMPLATE' },
        )
      })
      return [name, values] as const
    })
    return new Map(filled)
  }

  fill(field: string, template: string, place: string): string {
    const { publicValues, released } = this.#call
    const find = (name: string): string | undefined => {
      const value = publicValues.get(name)
      if (value !== undefined) return value
      const secret = released.get(name)
      if (secret !== undefined) this.#checkPlace(name, place)
      return secret
    }
    return renderTemplate(field, template, find, this.#room)
  }

  /**
   * Checks the method, the URL and the headers that the wire sends. The policies of all secrets in
   * the request must allow them.
   */
  readonly checkTarget: NonNullable<ConnectionRules['checkTarget']> = target => {
    this.#call.connection.checkTarget?.(target)
    for (const [key, policy] of this.#used) {
      const headers = this.#checkedHeaders(key, policy, target.headers)
      this.#check(key, policy, { ...target, headers })
    }
  }

  /**
   * Checks a place before a secret is put into it. Throws EnclaveError with the code
   * `SECRET_POLICY` if the secret must not go there.
   */
  #checkPlace(key: string, place: string): void {
    const { method, url, policies } = this.#call
    const policy = policies.get(key)
    if (policy === undefined) {
      if (this.#rules.requirePolicies)
        throw notAllowed(key, 'it has no policy, which this enclave asks for')
      this.#warn(key, 'has no policy: it may go anywhere')
      return
    }
    this.#used.set(key, policy)
    const headers = this.#checkedHeaders(key, policy, this.#headers)
    this.#check(key, policy, { method, url, place, headers })
  }

  /**
   * Lists the headers that the policy of a secret is checked against. If other headers only cause a
   * warning, logs them.
   */
  #checkedHeaders(
    key: string,
    policy: SecretUse,
    headers: readonly string[] = [],
  ): readonly string[] {
    if (this.#rules.policyHeaders === 'refuse') return headers
    const unnamed = unnamedHeaders(policy, headers)
    for (const header of unnamed)
      if (!isOverridingHeader(header) && this.#warned.size < MAX_WARNINGS)
        this.#warn(key, `has a policy that does not name the header ${header.toLowerCase()}`)
    return unnamed.filter(isOverridingHeader)
  }

  #warn(key: string, rule: string): void {
    const { secrets, scope } = this.#call
    const { owner, namespace } = secrets.find(each => each.key === key) ?? {}
    const warning = `${owner}/${namespace}/${key} ${rule}`
    if (this.#warned.has(warning)) return
    this.#warned.add(warning)
    scope.log.warn?.(`secret ${key} ${rule}`)
  }

  #check(key: string, use: SecretUse, target: Omit<SecretTarget, 'hasCustomRoots'>): void {
    const violation = findViolation(use, { ...target, hasCustomRoots: this.#hasCustomRoots })
    if (violation !== undefined) throw notAllowed(key, violation)
  }
}

function notAllowed(key: string, rule: string): EnclaveError {
  return new EnclaveError(`secret ${key}: ${rule}; nothing was sent`, { code: 'SECRET_POLICY' })
}
