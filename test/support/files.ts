import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(__dirname, '../..')

/** The path of a file of the built library, such as `cjs/index.js`, or of a package of its own. */
export const built = (path: string, name?: string): string =>
  join(root, name === undefined ? '' : `packages/${name}`, 'dist', path)

/** The content of a JSON file in test/vectors. */
export const readVectors = <Content>(name: string): Content =>
  JSON.parse(readFileSync(join(root, 'test/vectors', name), 'utf8'))
