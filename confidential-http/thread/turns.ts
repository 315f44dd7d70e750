/** Waits for a turn; `isOver` tells whether there is nothing to begin any more, which takes no turn. */
export type TakeTurn = (isOver: () => boolean) => Promise<void>

/**
 * Lets one through with each turn of the event loop. Who begins with much to compute thereby waits for those who have
 * begun before, and timers and answers are not held up however many come at once.
 */
export function createTurns(): TakeTurn {
  let waiting: { readonly isOver: () => boolean; readonly go: () => void }[] = []

  function letNext(): void {
    const asked = waiting.map(each => ({ ...each, isOver: each.isOver() }))
    const [next, ...others] = waiting.filter((_, index) => !asked[index]?.isOver)
    waiting = others
    for (const { isOver, go } of asked) if (isOver) go()
    next?.go()
    if (waiting.length > 0) setImmediate(letNext)
  }

  return function takeTurn(isOver) {
    return new Promise(go => {
      if (waiting.push({ isOver, go }) === 1) setImmediate(letNext)
    })
  }
}
