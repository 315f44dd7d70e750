import {
  feedID,
  type Service,
  type ServiceOptions,
  startService,
} from '@sluice/test-support/service/service.js'
import { certify } from '../../../certify/certify.js'
import type { CertifySubject } from '../../../certify/context.js'
import type { CertifyRecord } from '../../../certify/record.js'

/** Feeds of several versions: two in seconds, and one in milliseconds. */
export const feeds: readonly string[] = [feedID(3), feedID(8), feedID(3, 7, { milliseconds: true })]

/** A deviation from the protocol, made in the service of a test. */
export interface Plant {
  /** The ids of the checks that must find it. */
  readonly found: readonly string[]
  readonly options?: Partial<ServiceOptions>
  /** Plants it in a service that has its reports. */
  readonly plant?: (service: Service, often: (act: () => unknown) => void) => unknown
}

/** How many reports each feed has at the start. */
const HISTORY = 20

/** A service that publishes as the real one does, until it is closed. */
export class PublishingService implements AsyncDisposable {
  readonly service: Service
  readonly #timers: NodeJS.Timeout[] = []

  private constructor(service: Service) {
    this.service = service
  }

  static async start(options: Partial<ServiceOptions> = {}): Promise<PublishingService> {
    const publishing = new PublishingService(await startService({ feeds, ...options }))
    const { service } = publishing
    const start = Math.floor((options.now ?? Date.now)() / 1000) - HISTORY
    for (let at = 0; at < HISTORY; at++)
      for (const feed of feeds)
        service.store(feed, { observed: (start + at) * (feed[2] === '1' ? 1000 : 1) })
    const publish = (): void => {
      for (const feed of feeds) service.publish(feed)
    }
    publish()
    publishing.often(publish, 1000)
    return publishing
  }

  /** Does something again and again. */
  often(act: () => unknown, ms = 300): void {
    this.#timers.push(setInterval(act, ms))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    await this.service.close()
  }
}

/** A subject at a service. */
export function subjectAt(
  { endpoint, wsEndpoint, apiKey, userSecret, network }: Service,
  more: Partial<CertifySubject> = {},
): CertifySubject {
  const { signers, f } = network
  return {
    ...{ endpoint, wsEndpoint, network: undefined, egress: {}, env: {}, feedIDs: [] },
    credentials: { apiKey, userSecret },
    ...{ forMs: 4000, rate: 500, signers: { signers, f } },
    ...more,
  }
}

/** The record of a service with these deviations. */
export async function recordWith(plants: readonly Plant[]): Promise<CertifyRecord> {
  const options = Object.assign({}, ...plants.map(plant => plant.options))
  await using publishing = await PublishingService.start(options)
  const { service } = publishing
  for (const { plant } of plants) await plant?.(service, act => publishing.often(act))
  return await certify(subjectAt(service), new AbortController().signal)
}

/** The ids of the checks that have a verdict. */
export const idsOf = ({ checks }: CertifyRecord, verdict: string): readonly string[] =>
  checks.filter(check => check.verdict === verdict).map(({ id }) => id)

/** What each check with a verdict has seen. */
export const linesOf = ({ checks }: CertifyRecord, verdict: string): readonly string[] =>
  checks.flatMap(({ id, seen }) =>
    seen.filter(each => each.verdict === verdict).map(({ text }) => `${id}: ${text}`),
  )
