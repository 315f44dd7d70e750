import { defineDecoder } from 'sluice'

/**
 * Decodes the feeds whose id begins with `0x002a`, or with `0x102a` where times are in
 * milliseconds. The fields are those behind the common head, in the order of the encoding.
 */
export const v42 = defineDecoder({
  version: 42,
  fields: { price: 'int192', halted: 'bool', updatedAt: 'uint64' },
})
