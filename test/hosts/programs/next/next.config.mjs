import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import documented from '../docs/next.config.mjs'

// The tools are installed two folders above.
const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

export default {
  outputFileTracingRoot: root,
  turbopack: { root },
  // As an installed package it has its threads; a part of the bundle has none.
  ...(process.env.EXTERNAL && documented),
}
