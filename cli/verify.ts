import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { isStreamsError, ValidationError } from '../core/errors.js'
import { toError } from '../plugins/verify/rejection.js'
import type { SignerSet, Signers } from '../plugins/verify/signers.js'
import {
  type Verification,
  type VerifyReportOptions,
  verifyReport,
} from '../plugins/verify/verify-report.js'
import { parseFeedID } from '../report/feed-id.js'
import { number } from './arguments.js'

interface VerifyOptions {
  readonly signers?: string
  readonly f?: number
  readonly onchain?: string
  readonly verifier?: string
  readonly count?: string
  readonly feed?: string
  readonly checkExpiry?: boolean
  readonly json?: boolean
}

/** A report, and the fields of the envelope around it. */
interface Given {
  readonly fullReport: string
  readonly feedID?: string
  readonly validFromTimestamp?: number
  readonly observationsTimestamp?: number
}

/** Adds `verify`. */
export function addVerifyCommand(program: Command, out: NodeJS.WritableStream): void {
  program
    .command('verify')
    .description('verify the signatures of a report, by the addresses of its signers')
    .argument(
      '<report>',
      '0x and digits, or a file of them or of the JSON that the service sends; - is standard input',
    )
    .option(
      '--signers <list|file>',
      'addresses, separated by commas, or a JSON file of one or several { signers, f, configDigest?, activeFrom?, activeUntil? }',
    )
    .option('--f <n>', 'how many of the listed signers may be faulty', number)
    .option(
      '--onchain <url>',
      'instead of --signers: an Ethereum node, which is asked for those of the verifier contract',
    )
    .option(
      '--verifier <address>',
      'the contract: a VerifierProxy (default: that of the node’s network)',
    )
    .option('--count <rule>', 'at-least or exactly f + 1 signatures (default: at-least)')
    .option('--feed <id>', 'the feed it must be of')
    .option('--check-expiry', 'reject a report that has expired')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Ends with 0 if the report is verified, 1 if it is rejected, 2 for wrong arguments.

Examples:
  $ sluice verify 0x0006f9b5… --signers 0x6b23…,0x72cc…,0x87ab…,0xdd32… --f 1
  $ sluice verify report.json --signers signers.json --check-expiry --json
  $ sluice verify report.json --onchain https://arb1.arbitrum.io/rpc`,
    )
    .action(async (report: string, options: VerifyOptions) => {
      process.exitCode = await verify(report, options, out)
    })
}

async function verify(
  report: string,
  options: VerifyOptions,
  out: NodeJS.WritableStream,
): Promise<number> {
  const given = readReport(report)
  const { count, feed, checkExpiry = false, json = false } = options
  const asked = {
    ...given,
    checkExpiry,
    ...(count === undefined ? {} : { count }),
    ...(feed === undefined ? {} : { feedID: feed }),
  }
  const { fullReport, ...rest } = asked
  try {
    if (feed !== undefined) checkEnvelope(given, parseFeedID(feed))
    const signers = await findSigners(options)
    const verification = await verifyReport(fullReport, { ...rest, signers } as VerifyReportOptions)
    out.write(
      json ? `${JSON.stringify({ verified: true, ...verification })}\n` : describe(verification),
    )
    return 0
  } catch (thrown) {
    if (!isStreamsError(thrown, 'VERIFICATION')) throw thrown
    const { reason } = thrown
    // Of what failed at the contract, the cause says more.
    const { message } = isStreamsError(thrown.cause, 'VERIFICATION') ? thrown.cause : thrown
    if (json) out.write(`${JSON.stringify({ verified: false, reason, message })}\n`)
    else process.stderr.write(`sluice: ${message} (${reason})\n`)
    return 1
  }
}

/** Throws if the envelope names another feed than `--feed`. */
function checkEnvelope({ feedID }: Given, feed: string): void {
  if (feedID === undefined || parseFeedID(feedID) === feed) return
  throw toError({ reason: 'wrong-feed', rule: 'its JSON is of another feed' }, feed)
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

/** Longer than the name of any file. */
const bareDigits = /^[0-9a-f]{256,}$/i

function readReport(given: string): Given {
  const isReport = /^0x/i.test(given) || bareDigits.test(given.trim())
  const text = isReport ? given.trim() : read(given, 'the report')
  const digits = /^(?:0x)?([0-9a-f]+)$/i.exec(text)?.[1]
  if (digits !== undefined) return { fullReport: `0x${digits}` }
  if (!/^[{[]/.test(text)) return { fullReport: text }
  const parsed = parse(text, 'the report') as { report?: unknown; reports?: unknown }
  if (Array.isArray(parsed.reports ?? parsed))
    throw new ValidationError('the report must be a single one, not a list or a page of several')
  const envelope = (parsed.report ?? parsed) as Partial<Given>
  const { fullReport, feedID, validFromTimestamp, observationsTimestamp } = envelope
  if (typeof fullReport !== 'string') throw new ValidationError('the report must have a fullReport')
  return {
    fullReport,
    ...(feedID === undefined ? {} : { feedID }),
    ...(validFromTimestamp === undefined ? {} : { validFromTimestamp }),
    ...(observationsTimestamp === undefined ? {} : { observationsTimestamp }),
  }
}

async function findSigners({ signers, f, onchain, verifier }: VerifyOptions): Promise<Signers> {
  if (onchain === undefined) {
    if (verifier !== undefined) throw new ValidationError('--verifier goes with --onchain')
    if (signers === undefined) throw new ValidationError('--signers or --onchain must be given')
    return readSigners(signers, f)
  }
  if (signers !== undefined || f !== undefined)
    throw new ValidationError('--onchain takes the place of --signers and --f')
  const { findOnchainSigners } = await import('./onchain.js')
  return findOnchainSigners(onchain, verifier)
}

function readSigners(signers: string, f?: number): SignerSet | readonly SignerSet[] {
  if (!/^0x[0-9a-f]+\s*(,|$)/i.test(signers.trim())) {
    if (f !== undefined) throw new ValidationError('--f goes with a list: a file has its own')
    const text = read(signers, '--signers')
    if (/^0x/i.test(text))
      throw new ValidationError(
        '--signers must be a file of JSON: addresses alone are given as --signers 0x…,0x… --f <n>',
      )
    return parse(text, '--signers') as SignerSet
  }
  if (f === undefined) throw new ValidationError('--f must be given with a list of signers')
  return { signers: signers.split(',').map(each => each.trim()), f }
}

function read(path: string, what: string): string {
  try {
    return readFileSync(path === '-' ? 0 : path, 'utf8').trim()
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENAMETOOLONG')
      throw new ValidationError(`${what} is neither hexadecimal nor the name of a file`)
    throw new ValidationError(`${what} can’t be read from ${path}: ${code}`, { cause })
  }
}

function parse(text: string, what: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ValidationError(`${what} must be JSON`)
  }
}
