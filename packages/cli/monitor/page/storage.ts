type Store = 'localStorage' | 'sessionStorage'

/**
 * Stores a text in the browser, or removes it if `text` is undefined. The settings of a browser may
 * forbid storage.
 */
export function remember(store: Store, name: string, text: string | undefined): void {
  try {
    if (text === undefined) globalThis[store].removeItem(name)
    else globalThis[store].setItem(name, text)
  } catch {
    // Without storage, a setting lasts until the page is closed.
  }
}

/** Reads a text that the browser has stored; undefined if there is none. */
export function recall(store: Store, name: string): string | undefined {
  try {
    return globalThis[store].getItem(name) ?? undefined
  } catch {
    return undefined
  }
}
