export { type CursorStore, fileCursors } from './file-cursors.js'
