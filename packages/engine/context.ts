import { Access } from './access.js'
import type { Archive } from './archive.js'
import { Catalogue } from './catalogue.js'
import { Faults } from './faults.js'
import type { Feed } from './feeds.js'
import { Ledger, RequestLog } from './ledger.js'
import { type Curve, type Forgery, forgeReport, Network } from './network.js'
import type { Settings } from './options.js'

/** The generation number of the signers that sign only forged reports. */
const FORGERS = -1

/** The state that the parts of an engine share. */
export class EngineContext {
  readonly settings: Settings
  readonly feeds: Map<string, Feed>
  readonly access: Access
  readonly catalogue: Catalogue
  readonly ledger: Ledger
  readonly log: RequestLog = new RequestLog()
  /** Failures that apply to every origin. */
  readonly faults: Faults
  readonly curve: Curve
  readonly #forgers: Network
  /** The ids of the origins that answers list in `x-cll-available-origins`. */
  readonly listedOrigins: Set<string>

  /** REST also answers with the reports of an archive. */
  constructor(settings: Settings, feeds: Map<string, Feed>, curve: Curve, archive?: Archive) {
    const { seed, nodes, f, originIDs } = settings
    this.settings = settings
    this.feeds = feeds
    this.access = new Access(feeds, settings)
    this.catalogue = new Catalogue(feeds, settings.clock.now)
    this.ledger = new Ledger(settings, archive)
    this.faults = new Faults(settings.clock)
    this.curve = curve
    this.#forgers = new Network(curve, seed, nodes, f, FORGERS)
    this.listedOrigins = new Set(originIDs)
  }

  /** Forges a signed report. */
  forge(fullReport: string, how: Forgery): string {
    return forgeReport(fullReport, how, this.#forgers)
  }

  /** The headers of every answer. Their names are in lower case. */
  headers(): Readonly<Record<string, string>> {
    const { clock, originIDs } = this.settings
    const listed = originIDs.filter(id => this.listedOrigins.has(id))
    return {
      date: new Date(clock.now()).toUTCString(),
      'x-cll-available-origins': `{${listed.join(',')}}`,
    }
  }
}
