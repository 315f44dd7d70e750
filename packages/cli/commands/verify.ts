import type { Command } from 'commander'
import { isStreamsError, ValidationError } from 'sluice/core'
import { toError } from 'sluice/internal'
import type { Signers, Verification, VerifyReportOptions } from 'sluice/plugins/verify'
import type { ReportVerificationError } from 'sluice/report'
import { parseFeedID } from 'sluice/report'
import { hideKeys } from '../errors.js'
import { addExamples } from '../input/arguments.js'
import { type GivenReport, readReports, reportsText } from '../input/reports.js'
import { type IO, print, warn } from '../io.js'
import { shortID, timeOfDay } from '../output/feeds.js'
import { addSignerOptions, findSigners, type SignerOptions } from '../service/signers.js'

interface VerifyOptions extends SignerOptions {
  readonly count?: string
  readonly feed?: string
  readonly checkExpiry?: boolean
  readonly json?: boolean
}

/** Adds `verify`. */
export function addVerifyCommand(program: Command, io: IO): void {
  const command = addSignerOptions(program.command('verify'))
    .description('verify the signatures of reports, by the addresses of their signers')
    .argument('<report>', reportsText)
    .option('--count <rule>', 'at-least or exactly f + 1 signatures (default: at-least)')
    .option('--feed <id>', 'the feed that they must be of')
    .option('--check-expiry', 'reject a report that has expired')
    .option('--json', 'print JSON, an object a line')
    .addHelpText(
      'after',
      '\nEnds with 0 if every report is verified, 1 if one is rejected, 2 for wrong arguments.',
    )
    .action((given: string, options: VerifyOptions) => verify(given, options, io))
  addExamples(
    command,
    'sluice verify 0x0006f9b5… --signers 0x6b23…,0x72cc…,0x87ab…,0xdd32… --f 1',
    'sluice verify report.json --signers signers.json --check-expiry --json',
    'sluice latest ETH/USD --json | sluice verify - --onchain https://arb1.arbitrum.io/rpc',
  )
}

interface Rejected {
  readonly verified: false
  readonly reason: string
  readonly message: string
}

type Verdict = Rejected | { readonly verified: true; readonly verification: Verification }

async function verify(given: string, options: VerifyOptions, io: IO): Promise<void> {
  const feed = options.feed === undefined ? undefined : parseFeedID(options.feed)
  const signers = await findSigners(options).catch(verdictOnError)
  if (signers !== undefined && 'verified' in signers) {
    io.exitCode = 1
    await show(signers, options, io)
    return
  }
  if (signers === undefined) throw new ValidationError('--signers or --onchain must be given')
  let first: Verification | undefined
  let count = 0
  for await (const report of readReports(given, io)) {
    if (io.signal.aborted) return
    const verdict = await verdictOf(report, feed, signers, options)
    if (!verdict.verified) io.exitCode = 1
    count++
    // A report that is the only one is described in full.
    if (count === 1 && verdict.verified && !options.json) first = verdict.verification
    else {
      if (first !== undefined) await print(io, inOneLine(first))
      first = undefined
      await show(verdict, options, io)
    }
  }
  if (first !== undefined) await print(io, describe(first))
}

async function verdictOf(
  given: GivenReport,
  feed: string | undefined,
  signers: Signers,
  { count, checkExpiry = false }: VerifyOptions,
): Promise<Verdict> {
  const { verifyReport } = await import('sluice/plugins/verify')
  const { fullReport, ...envelope } = given
  try {
    if (feed !== undefined) checkEnvelope(given, feed)
    const options = {
      ...envelope,
      signers,
      checkExpiry,
      ...(count === undefined ? {} : { count }),
      ...(feed === undefined ? {} : { feedID: feed }),
    } as VerifyReportOptions
    return { verified: true, verification: await verifyReport(fullReport, options) }
  } catch (thrown) {
    return verdictOnError(thrown)
  }
}

function verdictOnError(thrown: unknown): Rejected {
  if (!isStreamsError(thrown, 'VERIFICATION')) throw thrown
  const { reason } = thrown as ReportVerificationError
  // Of what failed at the contract, the cause says more.
  const { message } = isStreamsError(thrown.cause, 'VERIFICATION') ? thrown.cause : thrown
  return { verified: false, reason, message }
}

/** Throws if the envelope names another feed than `--feed`. */
function checkEnvelope({ feedID }: GivenReport, feed: string): void {
  if (feedID === undefined || parseFeedID(feedID) === feed) return
  throw toError({ reason: 'wrong-feed', rule: 'its JSON is of another feed' }, feed)
}

/** Prints a verdict in a line: what is verified as a result, what is rejected as an error, in JSON both as results. */
async function show(verdict: Verdict, { json }: VerifyOptions, io: IO): Promise<void> {
  const { verified } = verdict
  if (json)
    await print(
      io,
      `${JSON.stringify(verified ? { verified, ...verdict.verification } : verdict)}\n`,
    )
  else if (verified) await print(io, inOneLine(verdict.verification))
  else warn(io, hideKeys(`${verdict.message} (${verdict.reason})`))
}

function inOneLine({ feedID, observationsTimestamp, signers }: Verification): string {
  const time = timeOfDay(feedID, observationsTimestamp)
  return `verified  ${shortID(feedID)}  ${time}  signed by ${signers.length}\n`
}

function describe(verification: Verification): string {
  const { feedID, observationsTimestamp, configDigest, sequenceNumber, f, signers } = verification
  const lines = [
    `verified: signed by ${signers.length}, of whom ${f} may be faulty`,
    `feed           ${feedID}`,
    `observed       ${observationsTimestamp}`,
    `config digest  ${configDigest}`,
    ...(sequenceNumber === undefined ? [] : [`sequence       ${sequenceNumber}`]),
    ...signers.map(signer => `signer         ${signer}`),
  ]
  return `${lines.join('\n')}\n`
}
