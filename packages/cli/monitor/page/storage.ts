type Store = 'localStorage' | 'sessionStorage'

/** Has the browser remember a text, or with undefined forget it. A browser may be set to remember nothing. */
export function remember(store: Store, name: string, text: string | undefined): void {
  try {
    if (text === undefined) globalThis[store].removeItem(name)
    else globalThis[store].setItem(name, text)
  } catch {
    // Then it holds until the page is closed.
  }
}

/** What the browser remembers. */
export function recall(store: Store, name: string): string | undefined {
  try {
    return globalThis[store].getItem(name) ?? undefined
  } catch {
    return undefined
  }
}
