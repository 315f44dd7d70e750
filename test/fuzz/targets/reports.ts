import { isStreamsError } from '../../../core/errors.js'
import { decodeReport } from '../../../plugins/decoders/versions.js'
import { type Verification, verifyReport } from '../../../plugins/verify/verify-report.js'
import { type ReportContext, readContext } from '../../../report/full-report.js'
import type { Report } from '../../../report/report.js'
import type { Target } from '../../support/fuzz/fuzz.js'
import { mutateText } from '../../support/fuzz/mutations.js'
import { assert, checkTimes, ofBytes, text } from '../../support/fuzz/target.js'
import { type Input, mutants } from '../../support/report/report-mutations.js'
import { published, publishedSigners } from '../../support/report/signed-reports.js'
import type { Dice } from '../dice.js'
import { openFrameReader } from '../frame-reader.js'
import { makeFrame } from '../frames.js'
import { readFrame } from '../reference-frame.js'
import { feeds, originals } from '../samples.js'

export function frames(): Target<Uint8Array> {
  const { read } = openFrameReader(feeds)
  return {
    name: 'messages of the stream',
    make: makeFrame,
    read(data) {
      const outcome = read(data)
      if (outcome instanceof Error) throw outcome
      return outcome
    },
    check(result, data, thrown) {
      const expected = readFrame(data, feeds)
      if (typeof expected === 'string') {
        assert(thrown !== undefined, `refused with ${expected}, as the plain reading has it`)
        assert(isStreamsError(thrown) && thrown.code === expected, `code ${expected}`)
        return
      }
      assert(result !== undefined, 'taken, as the plain reading has it')
      const report = result as Report
      checkTimes(report)
      for (const [name, value] of Object.entries(expected))
        assert(report[name as keyof Report] === value, `${name} as the plain reading has it`)
    },
    ...ofBytes,
  }
}

export const decoding: Target<Input> = {
  name: 'signed reports, V2 to V14',
  make(dice) {
    const original = dice.pick(originals)
    if (dice.once(8)) return original
    const [mutant] = mutants(original, dice.below(2 ** 31), 1)
    return mutant as Input
  },
  read: ({ fullReport, feedID }) => decodeReport(fullReport, feedID),
  check(result, { feedID }) {
    if (result === undefined) return
    const { version } = result as { version: string }
    assert(version === `V${Number.parseInt(feedID.slice(3, 6), 16)}`, 'the version of the feed id')
  },
  show: input => JSON.stringify(input),
  sizeOf: ({ fullReport }) => fullReport.length,
}

export const contexts: Target<Input> = {
  ...decoding,
  name: 'report contexts',
  read: ({ fullReport, feedID }) => readContext(fullReport, feedID),
  check(result) {
    if (result === undefined) return
    const { configDigest, extraHash, epoch, round, signatures } = result as ReportContext
    for (const each of [configDigest, extraHash, ...signatures.flatMap(({ r, s }) => [r, s])])
      assert(/^0x[0-9a-f]{64}$/.test(each), 'words in lower case')
    assert(epoch <= 0xffff_ffff && round <= 0xff, 'an epoch and a round')
    assert(signatures.length <= 32, 'as many signatures as there is room for')
  },
}

const wholeReports = [0, 3, 8, 13].map(index => published(index).fullReport)

/** One byte is another, or the text is damaged: whatever it is, it is not signed. */
function makeSigned(dice: Dice): string {
  const report = dice.pick(wholeReports)
  if (dice.once(8)) return report
  if (dice.once(4)) return mutateText([report], dice)
  const bytes = Buffer.from(report.slice(2), 'hex')
  bytes[dice.below(bytes.length)] = dice.below(256)
  return `0x${bytes.toString('hex')}`
}

export const verifying: Target<string> = {
  ...text('verification of signatures', [], each =>
    verifyReport(each, { signers: publishedSigners }),
  ),
  make: makeSigned,
  share: 0.2,
  check(result, given) {
    if (result === undefined) return
    assert(wholeReports.includes(given.toLowerCase()), 'verified only where nothing was changed')
    assert((result as Verification).signers.length === 2, 'two who signed')
  },
}
