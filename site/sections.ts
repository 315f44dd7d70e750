/** A section of the site. */
export interface Section {
  readonly title: string
  /** Below docs/. */
  readonly folder: string
  /** In the order in which they are read. */
  readonly pages: readonly string[]
  /** The section begins closed. */
  readonly isClosed?: boolean
}

const words = (text: string): string[] => text.trim().split(/\s+/)

/** All pages of the site, but for the first one and the reference of exports. */
export const sections: readonly Section[] = [
  {
    title: 'Start',
    folder: 'start',
    pages: words('first-price verified-price lasting-stream from-the-official-sdk'),
  },
  {
    title: 'Recipes',
    folder: 'recipes',
    pages: words(`rest stream-gaps-resume high-availability price-at-a-moment market-guard candles
      own-decoder own-plugin logging metrics test-with-the-engine retry-and-errors proxy-and-tls
      replay-a-day sink-duckdb sink-parquet sink-postgres sink-kafka sink-sqlite
      page-over-the-gateway confidential-request`),
  },
  {
    title: 'Concepts',
    folder: 'concepts',
    pages: words('pipeline continuity high-availability time confidential-http scale-out'),
  },
  {
    title: 'Guides',
    folder: 'guides',
    pages: words(`catalogue requests reports streams price-at-a-moment averages market-guard candles
      verification decoders plugins testing testing-kit logging telemetry network portability replay
      mcp sinks sinks-duckdb sinks-servers scale-out confidential-http vault enclave`),
    isClosed: true,
  },
  {
    title: 'Operation and troubleshooting',
    folder: 'operate',
    pages: words('doctor certify monitor operations runbook durability containers'),
    isClosed: true,
  },
  {
    title: 'Reference',
    folder: 'reference',
    pages: words(`command-line errors requests streams continuity network verification decoders
      proofs market-guard plugins plugin-contract telemetry testing testing-kit portability replay
      sinks scale-out confidential-http vault enclave certify migration versioning architecture
      development`),
    isClosed: true,
  },
  {
    title: 'Records',
    folder: 'records',
    pages: words(`reliability performance hosts bundlers continuity proofs sinks scale-out monitor
      operations confidential`),
    isClosed: true,
  },
  { title: 'More', folder: '', pages: ['playground', 'glossary'] },
]

/** The paths of these pages below docs/. */
export const paths: readonly string[] = sections.flatMap(({ folder, pages }) =>
  pages.map(name => (folder === '' ? `${name}.md` : `${folder}/${name}.md`)),
)
