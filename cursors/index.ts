export type { CursorStore } from '../core/cursor.js'
export { fileCursors } from './file-cursors.js'
