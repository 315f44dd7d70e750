/** Entries for Node, Bun and Deno: they need files, servers or threads, or a package that does. */
const ofNode = [
  './internal',
  './health',
  './stores',
  './plugins/confidential-http',
  './plugins/prometheus',
  './presets/confidential',
  './package.json',
]

/** True for an entry of package.json that is for every platform. */
export const isPortable = entry => !ofNode.includes(entry)
