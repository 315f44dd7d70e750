export type { CursorStore } from './cursor-store.js'
export { fileCursors } from './file-cursors.js'
