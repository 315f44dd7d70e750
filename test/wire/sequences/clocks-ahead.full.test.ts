import { failOnUnhandled } from '../../support/closing.js'
import { but, type Given, line, type Sequence } from '../../support/wire/sequence.js'
import { playAll } from '../../support/wire/sequences.js'
import { atEach, wrong } from '../../support/wire/wrong-clocks.js'

failOnUnhandled()

const stored: Partial<Given> = { way: 'stored' }

/**
 * At −30 the clock goes ahead for some reports, and then back. Those of the right clock chain; −50 is only stored, and so are the
 * last before, the first after, and the last below the wrong ones where these lie in the past.
 */
function ahead(name: string, by: number, count: number, isChained: boolean): Sequence {
  const first = -30 + by + 1
  return {
    name: `${name}, and back`,
    before: [...but(line(-80, -30), [-50, -30], stored), ...wrong(count, first, -30, isChained)],
    meanwhile: but(line(-28, -22), [-28], stored),
    after: but(line(-20, -2), [-20, first - 1, -10], stored),
    // What is not chained says that something is missing before it.
    gaps: isChained ? [] : 'empty',
    pages: [23, 28],
  }
}

const distances: Parameters<typeof atEach>[0] = [
  ['ten seconds', 10],
  ['ten seconds (of the present)', 40],
  ['four minutes', 240],
  ['six minutes', 360],
  ['an hour', 3600],
]

// What lies in the future is held for reorderTimeout.
playAll([{ sequences: atEach(distances, ahead), continuity: { reorderTimeout: 11_500 } }])
