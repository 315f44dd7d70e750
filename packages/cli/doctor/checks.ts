import type { Check } from './check.js'
import { clock } from './checks/clock.js'
import { connection } from './checks/connection.js'
import { credentials } from './checks/credentials.js'
import { dns } from './checks/dns.js'
import { feeds } from './checks/feeds.js'
import { latency } from './checks/latency.js'
import { log } from './checks/log.js'
import { node } from './checks/node.js'
import { origins } from './checks/origins.js'
import { packages } from './checks/packages.js'
import { proxy } from './checks/proxy.js'
import { tls } from './checks/tls.js'
import type { Subject } from './context.js'

const machine: readonly Check[] = [node, packages]
/** Each stands below those that it needs. */
const service: readonly Check[] = [
  proxy,
  dns,
  connection,
  tls,
  clock,
  credentials,
  feeds,
  latency,
  origins,
]

/** The checks to run, in the order of the report. Who reads a log needs no credentials, and then no service. */
export function checksFor({ log: place, credentials }: Subject): readonly Check[] {
  if (place === undefined) return [...machine, ...service]
  return credentials === undefined ? [...machine, log] : [...machine, ...service, log]
}
