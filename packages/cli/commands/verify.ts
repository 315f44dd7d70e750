import type { Feed } from 'sluice/client'
import { isStreamsError, ValidationError } from 'sluice/core'
import { toError } from 'sluice/internal'
import {
  type Signers,
  type Verification,
  type VerifyReportOptions,
  verifyReport,
} from 'sluice/plugins/verify'
import { parseFeedID, type ReportVerificationError } from 'sluice/report'
import { type AddCommand, defineCommand, given } from '../command.js'
import { factsOf, findKnownFeeds, wantedFeedID } from '../input/feeds.js'
import { feedIDIn, type GivenReport, readReports, reportsText } from '../input/reports.js'
import { type IO, print, warn } from '../io.js'
import { hideKeys } from '../one-line.js'
import { dateTime, feedLabel, feedName } from '../output/feeds.js'
import { explained } from '../output/prices.js'
import { findSigners, signerOptions } from '../service/signers.js'

/** Adds `verify`. */
export const addVerifyCommand: AddCommand = defineCommand({
  name: 'verify',
  arguments: { '<report>': reportsText },
  options: {
    ...signerOptions,
    quorum: { value: 'rule', help: 'at-least or exactly f + 1 signatures (default: at-least)' },
    feed: {
      value: 'feed',
      help: 'the feed that they must be of: its id, or a name such as ETH/USD',
    },
    checkExpiry: { help: 'reject a report that has expired' },
    json: { help: 'print JSON, an object a line' },
  },
  after: 'Ends with 0 if every report is verified, 1 if one is rejected, 2 for wrong arguments.',
  examples: [
    'sluice verify 0x0006f9b5… --signers 0x6b23…,0x72cc…,0x87ab…,0xdd32… --f 1',
    'sluice verify report.json --signers signers.json --check-expiry --json',
    'sluice latest ETH/USD --json | sluice verify - --onchain https://arb1.arbitrum.io/rpc',
  ],
  async run(options, io, args) {
    const { quorum, checkExpiry = false, json = false } = options
    const feeds = options.feed === undefined ? undefined : findKnownFeeds(options.feed)
    const signers = await findSigners(options).catch(rejectionOf)
    if (signers === undefined) throw new ValidationError('--signers or --onchain must be given')
    if ('verified' in signers) {
      io.exitCode = 1
      return show(signers, json, io)
    }
    const rule = { signers, checkExpiry, ...given({ quorum, feeds }) } as Rule
    let first: Verification | undefined
    let count = 0
    for await (const report of readReports(args.report, io)) {
      if (io.signal.aborted) return
      const verdict = await verdictOf(report, rule)
      if (!verdict.verified) io.exitCode = 1
      count++
      // Only a single report is described in full. So the first report is kept until another report
      // follows or the input ends.
      if (count === 1 && verdict.verified && !json) first = verdict.verification
      else {
        if (first !== undefined) await print(io, inOneLine(first))
        first = undefined
        await show(verdict, json, io)
      }
    }
    if (first !== undefined) await print(io, describe(first))
  },
})

type Rule = Omit<VerifyReportOptions, 'feedID'> & {
  readonly signers: Signers
  readonly feeds?: readonly Feed[]
}

interface Rejected {
  readonly verified: false
  readonly reason: string
  readonly message: string
}

type Verdict = Rejected | { readonly verified: true; readonly verification: Verification }

async function verdictOf(
  { fullReport, source: _source, receivedAt: _receivedAt, ...envelope }: GivenReport,
  { feeds, ...rule }: Rule,
): Promise<Verdict> {
  const feedID = feeds && wantedFeedID(feeds, feedIDIn(fullReport))
  try {
    if (
      feedID !== undefined &&
      envelope.feedID !== undefined &&
      parseFeedID(envelope.feedID) !== feedID
    )
      throw toError({ reason: 'wrong-feed', rule: 'its JSON is of another feed' }, feedID)
    return {
      verified: true,
      verification: await verifyReport(fullReport, { ...envelope, ...rule, ...given({ feedID }) }),
    }
  } catch (thrown) {
    return rejectionOf(thrown)
  }
}

function rejectionOf(thrown: unknown): Rejected {
  if (!isStreamsError(thrown, 'VERIFICATION')) throw thrown
  const { reason } = thrown as ReportVerificationError
  // If the contract could not be asked for the signers, the cause says why.
  const { message } = isStreamsError(thrown.cause, 'VERIFICATION') ? thrown.cause : thrown
  return { verified: false, reason, message }
}

/**
 * Prints a verdict in one line. A rejection goes to standard error, but as JSON every verdict goes
 * to standard output.
 */
async function show(verdict: Verdict, json: boolean, io: IO): Promise<void> {
  const { verified } = verdict
  const row = verified ? { verified, ...verdict.verification } : verdict
  if (json) await print(io, `${JSON.stringify(row)}\n`)
  else if (verified) await print(io, inOneLine(verdict.verification))
  else warn(io, hideKeys(`${verdict.message} (${verdict.reason})`))
}

function inOneLine({ feedID, observationsTimestamp, signers }: Verification): string {
  const time = dateTime(feedID, observationsTimestamp)
  return `verified  ${feedName(factsOf(feedID)).padEnd(15)}  ${time}  signed by ${signers.length}\n`
}

function describe(verification: Verification): string {
  const { feedID, observationsTimestamp, configDigest, sequenceNumber, f, signers } = verification
  const lines = [
    `verified: signed by ${signers.length}, of whom ${f} may be faulty`,
    `feed           ${feedLabel(feedID)}`,
    `observed       ${explained(feedID, 'observationsTimestamp', observationsTimestamp)}`,
    `config digest  ${configDigest}`,
    ...(sequenceNumber === undefined ? [] : [`sequence       ${sequenceNumber}`]),
    ...signers.map(signer => `signer         ${signer}`),
  ]
  return `${lines.join('\n')}\n`
}
