/** A catalogue of feeds over HTTP, as the service describes it, with data of its own. */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Credentials, refusalOf } from './authentication.js'

export interface Entry {
  readonly feedId: string
  readonly name: string
  readonly baseAsset: string
  readonly quoteAsset: string
  readonly assetClass: string
  readonly feedType: string
  readonly attributeType: string
  readonly status: string
  readonly networkType: string
  readonly createdAt: string
  readonly expectedDecommissionAt: string | null
  readonly decommissionedAt: string | null
  readonly [more: string]: string | null
}

interface Listed {
  readonly entry: Entry
  /** The requests that list the feed: all, those with a key, or those with a key and `hidden`. */
  readonly seenBy: 'everybody' | 'key' | 'hidden'
}

export interface FakeCatalogue {
  readonly endpoint: string
  readonly wsEndpoint: string
  /** Path and query of each request so far. */
  readonly requests: string[]
  /** The keys that are right, with what each of them may also see. */
  readonly keys: Map<string, string>
  /** Changes a feed. */
  change(name: string, fields: Partial<Entry>): void
  /** While set, every answer has this status. */
  fails: number | undefined
  /** The value of `Cache-Control`. */
  caching: string
  close(): Promise<void>
}

/** A filter's comparison of texts: a list is an OR, and case does not matter. */
const oneOfList = (list: string, text: string): boolean =>
  list.toLowerCase().split(',').includes(text.toLowerCase())

const texts: readonly (readonly [string, (entry: Entry) => string])[] = [
  ['base_asset', entry => entry.baseAsset],
  ['quote_asset', entry => entry.quoteAsset],
  ['asset_class', entry => entry.assetClass],
  ['feed_type', entry => entry.feedType],
  ['attribute_type', entry => entry.attributeType],
  ['status', entry => entry.status],
  ['network_type', entry => entry.networkType],
]
const moments: readonly (readonly [string, (entry: Entry) => string | null])[] = [
  ['created', entry => entry.createdAt],
  ['expected_decommission', entry => entry.expectedDecommissionAt],
  ['decommissioned', entry => entry.decommissionedAt],
]

class Unreadable extends Error {}

function dateOf(text: string, name: string): number {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(at)) throw new Unreadable(`cannot parse ${name}`)
  return at
}

/** Starts a catalogue. A feed is everybody's, unless it is listed for a key or as hidden. */
export async function startFakeCatalogue(
  feeds: readonly Listed[],
  { apiKey, userSecret }: Credentials,
): Promise<FakeCatalogue> {
  let listed = [...feeds]
  const requests: string[] = []
  const keys = new Map([[apiKey, userSecret]])

  function find(query: URLSearchParams, hasKey: boolean): Entry[] {
    const hidden = query.get('hidden') ?? 'false'
    if (hidden !== 'true' && hidden !== 'false') throw new Unreadable('cannot parse hidden')
    let found = listed
      .filter(({ seenBy }) => {
        if (seenBy === 'everybody') return true
        return hasKey && (seenBy === 'key' || hidden === 'true')
      })
      .map(({ entry }) => entry)
    for (const [name, read] of texts) {
      const list = query.get(name)
      if (list !== null) found = found.filter(entry => oneOfList(list, read(entry)))
    }
    for (const [name, read] of moments) {
      const after = query.get(`${name}_after`)
      const before = query.get(`${name}_before`)
      if (after !== null) {
        const limit = dateOf(after, `${name}_after`)
        found = found.filter(entry => Date.parse(read(entry) ?? '') > limit)
      }
      if (before !== null) {
        const limit = dateOf(before, `${name}_before`)
        found = found.filter(entry => Date.parse(read(entry) ?? '') < limit)
      }
    }
    return found
  }

  function answer(request: IncomingMessage): { status: number; body: unknown } {
    const { method = '', url: path = '', headers } = request
    if (fake.fails !== undefined) return { status: fake.fails, body: { error: 'out of order' } }
    const [pathname, query = ''] = path.split('?')
    if (pathname !== '/api/v1/discovery') return { status: 404, body: { error: 'no such page' } }
    const hasKey = headers.authorization !== undefined
    if (hasKey && refusalOf({ method, path }, headers, keys, Date.now()) !== undefined)
      return { status: 401, body: { error: 'wrong credentials' } }
    try {
      return { status: 200, body: { feeds: find(new URLSearchParams(query), hasKey) } }
    } catch (error) {
      return { status: 400, body: { error: (error as Unreadable).message } }
    }
  }

  const server: Server = createServer((request, response) => {
    requests.push(request.url ?? '')
    const { status, body } = answer(request)
    response.statusCode = status
    if (status === 200) response.setHeader('cache-control', fake.caching)
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(body))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const fake: FakeCatalogue = {
    endpoint: `http://127.0.0.1:${port}`,
    wsEndpoint: `ws://127.0.0.1:${port}`,
    requests,
    keys,
    change(name, fields) {
      listed = listed.map(each =>
        each.entry.name === name ? { ...each, entry: { ...each.entry, ...fields } as Entry } : each,
      )
    },
    fails: undefined,
    caching: 'public, max-age=300',
    close() {
      const closed = new Promise<void>(resolve => server.close(() => resolve()))
      server.closeAllConnections()
      return closed
    },
  }
  return fake
}
