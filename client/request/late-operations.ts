import { loaded } from '../loaded.js'
import type { Operations } from './operations.js'
import type { RestParts } from './run-request.js'

let operations: typeof import('./operations.js') | undefined

async function load(): Promise<typeof import('./operations.js')> {
  operations = loaded(await import('./operations.js'))
  return operations
}

/** Makes the operations. What they run on is loaded with the first one of a process. */
export function createLateOperations<Data>(parts: RestParts<Data>): Operations<Data> {
  if (operations !== undefined) return operations.createOperations(parts)
  let made: Operations<Data> | undefined

  async function make(): Promise<Operations<Data>> {
    const { createOperations } = await load()
    made ??= createOperations(parts)
    return made
  }
  /** Adds no promise to an operation, but for the first. */
  function run<Result>(use: (made: Operations<Data>) => Promise<Result>): Promise<Result> {
    return made === undefined ? make().then(use) : use(made)
  }

  return {
    rest: {
      listFeeds: (...given) => run(({ rest }) => rest.listFeeds(...given)),
      getLatestReport: (...given) => run(({ rest }) => rest.getLatestReport(...given)),
      getReportByTimestamp: (...given) => run(({ rest }) => rest.getReportByTimestamp(...given)),
      getReportsPage: (...given) => run(({ rest }) => rest.getReportsPage(...given)),
      getReportsBulk: (...given) => run(({ rest }) => rest.getReportsBulk(...given)),
    },
    fetchPage: (...page) => run(({ fetchPage }) => fetchPage(...page)),
    fetchBulk: (...bulk) => run(({ fetchBulk }) => fetchBulk(...bulk)),
    request: (...request) => run(({ request: send }) => send(...request)),
  }
}
