/** What holds of every row, unless the row says otherwise: the promise, and the budget of requests and sockets. */
export const always = {
  lost: 0,
  gaps: 0,
  falseGaps: 0,
  doubled: 0,
  foreign: 0,
  unhandled: 0,
  secrets: 0,
  isAlive: true,
  closeMs: 1000,
  handles: 0,
  late: 0,
  mostRequestsPerSecond: 10,
  mostSockets: 20,
  heapGrowthMB: 10,
}

/** Figures that a busy machine spoils: a row that misses no others may run once more, with nothing beside it. */
const ofTime = new Set([
  ...['connect', 'rejected', 'detect', 'recover', 'backfill', 'repeated', 'closeMs'],
  ...['reported', 'latest'],
  'mostRequestsPerSecond',
])

/** Not where nothing is streamed, or where what is lost is not the row's subject. */
export const isMeasuredByLosses = ({ isREST, bound = {} }) =>
  isREST !== true && !('lost' in bound && bound.lost === undefined)

/** A number is the most a figure may be, a pair the least and the most, anything else what it must be. */
export function holds(figure, bound) {
  if (typeof bound === 'number') return figure <= bound
  if (Array.isArray(bound)) return figure >= bound[0] && figure <= bound[1]
  return figure === bound
}

function wordingOf(bound) {
  if (typeof bound === 'number') return `at most ${bound}`
  return Array.isArray(bound) ? `${bound[0]} to ${bound[1]}` : String(bound)
}

/** The bounds of a row that its figures miss, each in words. `undefined` takes a bound away. */
export function findMisses(figures, row) {
  const own = { ...row.bound, ...(isMeasuredByLosses(row) ? {} : { lost: undefined }) }
  const isMeasured = name => name in figures || name in own
  return Object.entries({ ...always, ...own })
    .filter(([name, limit]) => limit !== undefined && isMeasured(name))
    .filter(([name, limit]) => !holds(figures[name], limit))
    .map(([name, limit]) => ({
      text: `${name} is ${figures[name]}, the bound is ${wordingOf(limit)}`,
      isOfTime: ofTime.has(name) && figures[name] !== undefined,
    }))
}
