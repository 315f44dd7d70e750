// A program that needs no platform, as a workflow of CRE is: it checks and decodes reports and proofs that it is given.
import {
  DataStreamsError,
  decodeReport,
  defineDecoder,
  formatPrice,
  ReportDecodingError,
  ReportVerificationError,
  ValidationError,
  verifyReport,
} from 'sluice'
import { checkProof, ProofError } from 'sluice/proof'
import { createDecoderTable } from 'sluice/report'

/** A function of the library and its arguments. Bigints are `{ bigint: '1' }`. */
export type Call = readonly [name: string, ...given: readonly unknown[]]

/** A decoder of a third party, whose reports hold texts. */
const decoderOfTexts = defineDecoder({
  version: 42,
  fields: {
    price: 'int192',
    symbol: 'string',
    time: 'uint64',
    venue: 'string',
    marketStatus: 'uint32',
    volume: 'int192',
  },
})

const functions: Readonly<Record<string, (...given: never[]) => unknown>> = {
  decodeReport,
  formatPrice,
  verifyReport,
  checkProof,
  decodeText: (fullReport: string, feedID: string) =>
    createDecoderTable([decoderOfTexts]).decode(fullReport, feedID),
  /** The signers are found by a function, as a workflow finds them in a contract. */
  verifyByLookup: (fullReport: string, signers: never) =>
    verifyReport(fullReport, { signers: async () => signers }),
}

const classes = {
  DataStreamsError,
  ProofError,
  ReportDecodingError,
  ReportVerificationError,
  ValidationError,
}

/** Runs a call, given as JSON. Resolves with its result or its error, as JSON. */
export async function run(call: string): Promise<string> {
  const [name, ...given] = JSON.parse(call, (_key, value) =>
    typeof value?.bigint === 'string' ? BigInt(value.bigint) : value,
  ) as Call
  try {
    return show({ result: await functions[name]?.(...(given as never[])) })
  } catch (error) {
    const { message, ...facts } = error as Error & { readonly code?: string; reason?: string }
    const { code, reason } = facts
    const names = Object.entries(classes).flatMap(([name, one]) =>
      error instanceof one ? [name] : [],
    )
    return show({ name: (error as Error).name, classes: names, code, reason, message })
  }
}

/** Writes a value as JSON. A `toJSON` would write a bigint as text. */
function show(value: object): string {
  return JSON.stringify(value, function showOne(this: Record<string, unknown>, key) {
    const each = this[key]
    if (typeof each === 'bigint') return { bigint: String(each) }
    return typeof each === 'object' && each !== null && 'toJSON' in each ? { ...each } : each
  })
}
