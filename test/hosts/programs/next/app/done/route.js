// What the page shows, for whoever waits for it.
export const dynamic = 'force-dynamic'

export async function POST(request) {
  globalThis.shown = await request.json()
  return new Response()
}

export const GET = () => Response.json(globalThis.shown ?? {})
