const { TextEncoder } = require('node:util')

// What Node has and jsdom lacks, and the class that Node's own bytes are of.
Object.assign(globalThis, { TextEncoder, Uint8Array: Object.getPrototypeOf(Buffer) })
