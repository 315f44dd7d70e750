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
