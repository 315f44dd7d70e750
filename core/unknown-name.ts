import { ValidationError } from './errors.js'

/** Characters of a name that is shown whole: a longer one may be a key in the wrong place. */
const MAX_SHOWN = 40
/** The most edits between a name and the one that was probably meant. */
const MAX_EDITS = 3

/**
 * The error for a name that is not among `known`: it names the nearest of them, or all where none is near, as in
 * `unknown option 'colr' of paint; did you mean 'color'?`.
 */
export function unknownName(
  kind: string,
  name: string,
  known: readonly string[],
  of?: string,
): ValidationError {
  const shown = name.length > MAX_SHOWN ? `${name.slice(0, 8)}…` : name
  const where = of === undefined ? '' : ` of ${of}`
  return new ValidationError(`unknown ${kind} '${shown}'${where}; ${adviseName(shown, known)}`)
}

/** Names the nearest of the known names, or all where none is near. */
export function adviseName(name: string, known: readonly string[]): string {
  const meant = nearest(name.slice(0, MAX_SHOWN), known)
  return meant === undefined
    ? `there is ${known.length === 0 ? 'none' : known.join(', ')}`
    : `did you mean '${meant}'?`
}

/** The name that takes the fewest edits, in either case; undefined where more than a few letters or half of them differ. */
function nearest(name: string, known: readonly string[]): string | undefined {
  let best: string | undefined
  let least = MAX_EDITS + 1
  for (const each of known) {
    const edits = countEdits(name.toLowerCase(), each.toLowerCase())
    if (edits >= least || 2 * edits > Math.max(name.length, each.length)) continue
    best = each
    least = edits
  }
  return best
}

/** How many letters must be added, removed, replaced, or swapped with the next, to make one text of another. */
function countEdits(one: string, other: string): number {
  let twoAbove: number[] = []
  let above = Array.from({ length: other.length + 1 }, (_, column) => column)
  for (let row = 1; row <= one.length; row++) {
    const edits = [row]
    for (let column = 1; column <= other.length; column++) {
      const isSame = one[row - 1] === other[column - 1]
      const isSwap = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      edits[column] = Math.min(
        (above[column] ?? 0) + 1,
        (edits[column - 1] ?? 0) + 1,
        (above[column - 1] ?? 0) + (isSame ? 0 : 1),
        isSwap ? (twoAbove[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    twoAbove = above
    above = edits
  }
  return above[other.length] ?? 0
}
