import { notChecked, ok } from '../../doctor/check.js'
import { type CertifyCheck, defineCheck } from '../check.js'
import { noted } from '../finding.js'

/** Compares envelopes with what is signed. */
export const envelopes: CertifyCheck = defineCheck({
  name: 'envelope',
  title: 'The envelope of a report says what is signed',
  documented:
    'fullReport is the ABI encoding of context, blob and signatures; the feed id and the times beside it are those of the blob',
  source: 'report schemas pages, verifier contracts',
  run: async ({ book }) => [book.envelopes.finding('reports')],
})

/** Decodes reports by their schemas. */
export const schemas: CertifyCheck = defineCheck({
  name: 'schemas',
  title: 'Reports have the schema of their feed id',
  documented: 'The first two bytes of a feed id name the schema, which has a page',
  source: 'report schemas pages',
  async run({ book: { schemas, versions } }) {
    const found = [...versions].sort(([one], [other]) => one - other)
    const text = found.map(([version, times]) => `V${version}: ${times}`).join(', ')
    const finding = schemas.finding('reports')
    return text === '' ? [finding] : [finding, noted(`versions: ${text}`)]
  },
})

/** Compares the ends of each window. */
export const windows: CertifyCheck = defineCheck({
  name: 'window',
  title: 'A window begins before it ends',
  documented: 'validFromTimestamp is at most observationsTimestamp',
  source: 'report timestamps page',
  run: async ({ book }) => [book.windows.finding('reports')],
})

/** Compares the windows of neighbours. */
export const tiles: CertifyCheck = defineCheck({
  name: 'window-order',
  title: 'Windows follow each other without gap or overlap',
  documented:
    'validFromTimestamp is the observationsTimestamp before it + 1, so that each moment belongs to one report. A report of the longest range, 300 s, may leave a gap',
  source: 'report timestamps page; the longest range is in the oracle network’s code',
  async run({ book }) {
    for (const feedID of book.feedIDs) book.compareWindows(book.of(feedID), false)
    const found = book.tiles.finding('neighbours')
    if (book.clamped === 0) return [found]
    return [found, noted(`${book.clamped} gaps before reports of the longest range`)]
  },
})

/** Compares the order of time with the order of signing. */
export const signingOrder: CertifyCheck = defineCheck({
  name: 'signing-order',
  title: 'Reports are signed in the order of their times',
  documented:
    'Nothing. Within one configuration the sequence number counts the rounds of the network, so a report of a lower time with a higher number was signed later than its time',
  source: 'the oracle network’s code',
  async run({ book }) {
    const { signedLater: later, numbered } = book
    if (numbered === 0) return [notChecked('no report has a sequence number')]
    if (later.length === 0) return [ok(`${numbered} reports`)]
    return [noted(`${later.length} of ${numbered} reports: ${later.slice(0, 3).join('; ')}`)]
  },
})

/** Looks at the times at which reports expire. */
export const expiries: CertifyCheck = defineCheck({
  name: 'expiry',
  title: 'A live report has not expired',
  documented: 'expiresAt is the last time at which a contract accepts the report',
  source: 'report schemas pages',
  run: async ({ book }) => [book.expiries.finding('reports')],
})

/** Compares reports of one time that came on several ways. */
export const duplicates: CertifyCheck = defineCheck({
  name: 'duplicates',
  title: 'Duplicates are equal',
  documented:
    'A feed has one report for a time: origins and REST give the same signed content, perhaps with other signatures',
  source: 'high availability page, verifier contracts',
  run: async ({ book }) => [book.duplicates.finding('duplicates')],
})

/** Verifies signatures. */
export const signatures: CertifyCheck = defineCheck({
  name: 'signatures',
  title: 'Reports are signed by the network',
  documented: 'More than f known signers have signed the blob and its context',
  source: 'verifier contracts',
  async run({ book, subject }) {
    if (subject.signers === undefined)
      return [notChecked('no signers are given: --signers or --onchain')]
    await book.verified()
    const found = book.signatures.finding('reports')
    if (book.unverified === 0) return [found]
    return [found, ok(`${book.unverified} more were not verified: too many at once`)]
  },
})
