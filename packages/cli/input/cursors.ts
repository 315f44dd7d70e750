import { asError, ValidationError } from 'sluice/core'
import { fileCursors } from 'sluice/stores'
import { checkFolder } from './files.js'

/** Throws if a file of cursors is there and can't be read: the stream would go on without it. */
export async function checkCursors(path: string): Promise<void> {
  checkFolder('--cursors', path)
  try {
    await fileCursors(path).load()
  } catch (thrown) {
    throw new ValidationError(
      `--cursors: ${asError(thrown).message}: remove that file, or name another`,
      { cause: asError(thrown) },
    )
  }
}
