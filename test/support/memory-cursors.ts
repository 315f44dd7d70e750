import type { CursorStore } from '../../index.js'

/** Cursors in memory: what was saved last is what another stream with the same store begins with. */
export function memoryCursors(): CursorStore & { saved: Readonly<Record<string, number>> } {
  const store = {
    saved: {} as Readonly<Record<string, number>>,
    load: async () => ({ ...store.saved }),
    async save(cursors: Readonly<Record<string, number>>) {
      store.saved = { ...cursors }
    },
  }
  return store
}
