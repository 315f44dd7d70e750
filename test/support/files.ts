import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(__dirname, '../..')

/** The path of a file of the built package, such as `cjs/index.js`. */
export const built = (path: string): string => join(root, 'dist', path)

/** The content of a JSON file in test/vectors. */
export const readVectors = <Content>(name: string): Content =>
  JSON.parse(readFileSync(join(root, 'test/vectors', name), 'utf8'))
