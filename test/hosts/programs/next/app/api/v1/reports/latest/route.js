// What the page asks instead of the service: it signs, since a page has no secret.
import { generateAuthHeadersAsync } from 'sluice'

export const dynamic = 'force-dynamic'

export async function GET(request) {
  const { ENDPOINT, API_KEY, USER_SECRET } = process.env
  const { pathname, search } = new URL(request.url)
  const url = `${ENDPOINT}${pathname}${search}`
  const headers = await generateAuthHeadersAsync(API_KEY, USER_SECRET, 'GET', url)
  const { status, body } = await fetch(url, { headers })
  return new Response(body, { status })
}
