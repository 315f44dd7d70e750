import type { ServiceKey } from '../core/scope.js'

/** The key under which a plugin provides the service's clock, by which reports are dated, in milliseconds of Unix time. */
export const serviceClock: ServiceKey<() => number> = { name: 'the clock of the service' }
