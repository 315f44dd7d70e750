// A page of prices: a row for each feed, and a switch that takes the last one away.
import { StrictMode, useState } from 'react'
import { createRoot } from 'react-dom/client'
import {
  bearerAuth,
  continuity,
  createClient,
  decoders,
  dedup,
  formatPrice,
  retry,
  v3,
  verify,
} from 'sluice'
import type { V3 } from 'sluice/plugins/decoders'
import type { SignerSet } from 'sluice/plugins/verify'
import {
  ReportStore,
  ReportsProvider,
  type StoreOptions,
  useAge,
  useReport,
  useReports,
} from './use-reports.js'

/** What the page is told by the server that serves it. */
export interface PageConfig extends StoreOptions {
  readonly endpoint: string
  readonly wsEndpoint: string
  readonly feedIDs: readonly string[]
  readonly signers: SignerSet
  /** Asks your own backend for a token of the gateway. */
  readonly getToken: () => Promise<string>
}

function Price({ feedID }: { readonly feedID: string }) {
  const { report, status, error } = useReport<V3>(feedID)
  const age = useAge(report)
  return (
    <tr data-feed={feedID} data-status={status}>
      <th scope="row">{feedID.slice(0, 10)}…</th>
      <td>{report === undefined ? '–' : formatPrice(report.decoded.price, 18)}</td>
      <td>{age === undefined ? '' : `${age} s ago`}</td>
      <td>{error === undefined ? status : `${status}: ${error.message}`}</td>
    </tr>
  )
}

function Summary({ feedIDs }: { readonly feedIDs: readonly string[] }) {
  const states = useReports<V3>(feedIDs)
  const live = states.filter(({ status }) => status === 'live').length
  return <p role="status">{`${live} of ${states.length} feeds are live`}</p>
}

function Prices({ feedIDs }: { readonly feedIDs: readonly string[] }) {
  const [isShort, setShort] = useState(false)
  const shown = isShort ? feedIDs.slice(0, -1) : feedIDs
  return (
    <main>
      <Summary feedIDs={shown} />
      <table>
        <tbody>
          {shown.map(feedID => (
            <Price key={feedID} feedID={feedID} />
          ))}
        </tbody>
      </table>
      <button type="button" onClick={() => setShort(!isShort)}>
        {isShort ? 'Show all feeds' : 'Hide the last feed'}
      </button>
    </main>
  )
}

/** Shows the prices in an element. Returns a function that ends it. */
export function mountPrices(element: Element, config: PageConfig): () => Promise<void> {
  const { endpoint, wsEndpoint, feedIDs, signers, getToken, ...options } = config
  const client = createClient({
    endpoint,
    wsEndpoint,
    plugins: [
      decoders(v3),
      continuity({ order: 'newest' }),
      dedup(),
      verify({ signers }),
      retry(),
      bearerAuth({ token: getToken }),
    ],
  })
  const store = new ReportStore(client, options)
  const root = createRoot(element)
  root.render(
    <StrictMode>
      <ReportsProvider store={store}>
        <Prices feedIDs={feedIDs} />
      </ReportsProvider>
    </StrictMode>,
  )
  return async () => {
    root.unmount()
    await client.close()
  }
}
