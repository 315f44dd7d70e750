/** The README and the pages of `docs/`, from the root of the repository. */
export const pagePaths: readonly string[]

/** A sentence or a table cell of a page. */
export interface Part {
  readonly line: number
  readonly text: string
  readonly words: number
}

export function partsOf(text: string): {
  readonly sentences: readonly Part[]
  readonly cells: readonly Part[]
}
