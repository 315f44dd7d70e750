// What a page may know: no keys.
export const dynamic = 'force-dynamic'

export function GET() {
  const { FEED_ID, SIGNERS } = process.env
  return Response.json({ feed: FEED_ID, signers: JSON.parse(SIGNERS) })
}
