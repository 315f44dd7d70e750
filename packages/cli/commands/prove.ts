import { statSync, writeFileSync } from 'node:fs'
import { isStreamsError, ValidationError } from 'sluice/core'
import {
  type CheckedProof,
  type CheckProofOptions,
  checkProof,
  createProof,
  type HoleEdges,
  type Proof,
  type ProofError,
  type TimeRange,
  type WindowEnds,
} from 'sluice/proof'
import { formatPrice } from 'sluice/report'
import { type AddCommand, defineCommand, given } from '../command.js'
import { factsOf, feedText, findOneFeed } from '../input/feeds.js'
import { fileError, readSome, readStdin } from '../input/files.js'
import { readReports } from '../input/reports.js'
import { print, warn } from '../io.js'
import { count, dateRange, dateTime, feedLabel } from '../output/feeds.js'
import { requestLogging } from '../output/log.js'
import { connect, findService, serviceOptions } from '../service/service.js'
import { findSigners, signerOptions } from '../service/signers.js'
import { givenTime, timeText } from '../values.js'

/** Adds `prove`. */
export const addProveCommand: AddCommand = defineCommand({
  name: 'prove',
  arguments: { '<feed>': feedText },
  options: {
    at: { is: 'past', help: `the moment: ${timeText}`, excludes: ['from', 'to'] },
    from: { is: 'past', help: 'the start of the window of an average', needs: ['to'] },
    to: { is: 'past', help: 'the end of the window', needs: ['from'] },
    open: {
      value: 'end',
      choices: ['from', 'to'],
      help: 'the end that does not belong to the window; the service has not published which',
      needs: ['from'],
    },
    straddling: {
      value: 'how',
      choices: ['clip', 'whole'],
      help: 'whether a report that began before the window counts for its part inside, or whole',
      needs: ['from'],
    },
    field: { value: 'name', help: 'the field of the reports (default: the price)' },
    allowSignedLater: { help: 'take reports that the network signed later than their time' },
    out: { is: 'file', help: 'write the proof into a file; it must not exist' },
    ...serviceOptions,
  },
  after:
    'The proof is JSON. Its signatures are not checked here: sluice check checks it, and needs no service.',
  examples: [
    'sluice prove ETH/USD --at 2027-01-31T12:00Z --out proof.json',
    'sluice prove ETH/USD --from 2027-01-31T12:00Z --to 2027-01-31T12:01Z --open from --straddling clip',
    'sluice prove ETH/USD --at 1h | sluice check - --signers signers.json',
  ],
  async run(options, io, args) {
    const { at, from, to, open, straddling, field, out } = options
    if (at === undefined && from === undefined)
      throw new ValidationError('--at, or --from and --to, must be given')
    if (from !== undefined && (open === undefined || straddling === undefined))
      throw new ValidationError(
        '--open and --straddling must be given: the service has not published how the ends of a window count',
      )
    if (Math.max(at ?? 0, to ?? 0) > Date.now())
      throw new ValidationError(
        `${at === undefined ? '--to' : '--at'} must not be in the future: its reports are not produced yet`,
      )
    const service = findService(options, io)
    const { signal } = io
    await using client = connect(service, requestLogging(io))
    const { feedID } = await findOneFeed(args.feed, client, service, { signal })
    const { allowSignedLater = false } = options
    const facts = { feedID, signal, allowSignedLater, ...given({ field }) }
    const proof = await createProof(
      client,
      at !== undefined
        ? { ...facts, at: givenTime('--at', feedID, at) }
        : {
            ...facts,
            from: givenTime('--from', feedID, from as number),
            to: givenTime('--to', feedID, to as number),
            ends: { open, straddling } as WindowEnds,
          },
    )
    if (proof.claim.value === null) io.exitCode = 1
    const text = `${JSON.stringify(proof)}\n`
    if (out === undefined) await print(io, text)
    else {
      try {
        // A device or a pipe is written to. A file that exists is left alone.
        const found = statSync(out, { throwIfNoEntry: false })
        writeFileSync(out, text, { flag: found?.isFile() === false ? 'w' : 'wx' })
      } catch (cause) {
        throw fileError('--out', out, cause, 'written to')
      }
    }
    const holes = proof.missing.length > 0 ? `, with ${count(proof.missing.length, 'hole')}` : ''
    const where = out === undefined ? '' : ` in ${out}`
    const reports = `${count(proof.reports.length, 'report')}${holes}`
    warn(
      io,
      `${claimText(proof)}: ${reports}${where}; signatures are unchecked: sluice check checks`,
    )
  },
})

/** Adds `check`. */
export const addCheckCommand: AddCommand = defineCommand({
  name: 'check',
  arguments: { '<proof>': 'a file that prove made; - is standard input' },
  options: {
    ...signerOptions,
    complete: { help: 'refuse a proof with missing ranges' },
    allowSignedLater: {
      help: 'name reports that the network signed later than their time, instead of refusing them',
    },
    against: {
      value: 'reports',
      help: 'further signed reports of the network, any of which may refute the proof',
    },
    json: { help: 'print JSON' },
  },
  after: 'Ends with 0 if the proof holds, 1 if it is refused, 2 for wrong arguments.',
  examples: [
    'sluice check proof.json --signers 0x6b23…,0x72cc…,0x87ab…,0xdd32… --f 1',
    'sluice check proof.json --onchain https://arb1.arbitrum.io/rpc --against other.ndjson',
  ],
  async run(options, io, args) {
    const signers = await findSigners(options)
    if (signers === undefined) throw new ValidationError('--signers or --onchain must be given')
    const bytes =
      args.proof === '-'
        ? await readStdin(io, 'the proof is read', MAX_BYTES)
        : await readSome('the proof', args.proof, MAX_BYTES, io.signal)
    const magic = bytes.subarray(0, 4).toString('hex')
    if (magic.startsWith('1f8b') || magic === '28b52ffd')
      throw new ValidationError('the proof must be JSON, not compressed: decompress it first')
    const against: string[] = []
    if (options.against !== undefined)
      for await (const { fullReport } of readReports(options.against, io)) against.push(fullReport)
    try {
      const { complete = false, allowSignedLater = false } = options
      const rules: CheckProofOptions = { signers, against, complete, allowSignedLater }
      const checked = await checkProof(bytes.toString(), { ...rules, signal: io.signal })
      await print(io, options.json ? `${asJSON(checked)}\n` : describe(checked))
    } catch (thrown) {
      // Nothing is known of the proof: the signers can't be asked for.
      if (isStreamsError(thrown, 'VERIFICATION')) {
        io.exitCode = 4
        return warn(io, thrown.message)
      }
      if (!isStreamsError(thrown, 'PROOF')) throw thrown
      const { reason, message } = thrown as ProofError
      io.exitCode = 1
      if (options.json) await print(io, `${JSON.stringify({ holds: false, reason, message })}\n`)
      else warn(io, `${message} (${reason})`)
    }
  },
})

/** No proof is longer than this number of bytes. */
const MAX_BYTES = 33_554_432

function asJSON({ value, ...checked }: CheckedProof): string {
  return JSON.stringify({
    holds: true,
    value: value === undefined ? null : String(value),
    ...checked,
  })
}

function claimText({ feedID, claim }: Pick<Proof, 'feedID' | 'claim'>): string {
  const { field, value } = claim
  const { decimals } = factsOf(feedID)
  const exact =
    value === null || decimals === undefined ? value : formatPrice(BigInt(value), decimals)
  const price = exact ?? 'in no report'
  return claim.kind === 'price'
    ? `${field} at ${dateTime(feedID, claim.at)} is ${price}`
    : `average ${field} of ${dateRange(feedID, claim.from, claim.to)} is ${price}`
}

function describe(checked: CheckedProof): string {
  const { feedID, claim, missing, edges, isComplete, reports, signers } = checked
  const windowText = ({ from, to }: TimeRange): string => dateRange(feedID, from, to)
  const lines = [
    `${isComplete ? 'the proof holds' : 'the proof holds, with holes'}: ${claimText({ feedID, claim })}`,
    `feed        ${feedLabel(feedID)}`,
    `value       ${claim.value ?? 'none'}`,
    `reports     ${reports}, signed by ${signers.length}`,
    ...missing.flatMap((hole, index) => {
      const { before, after } = edges[index] as HoleEdges
      return [
        `missing     ${windowText(hole)}`,
        `between     the report of ${windowText(before)}, and that of ${windowText(after)}`,
      ]
    }),
    ...checked.proved.map(each => `proved      ${each}`),
    ...checked.assumed.map(each => `assumed     ${each}`),
    ...checked.unproved.map(each => `not proved  ${each}`),
  ]
  return `${lines.join('\n')}\n`
}
