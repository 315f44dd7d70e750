import { answerOf, createStream } from '../latest.js'

export const dynamic = 'force-dynamic'

/** Some reports of a stream, and in how many threads they were verified. */
export async function GET() {
  const stream = createStream()
  try {
    const reports = []
    for await (const report of stream) {
      reports.push(answerOf(report))
      if (reports.length === 3) break
    }
    return Response.json({ reports, threads: stream.getMetrics().verification.threads })
  } catch (error) {
    return Response.json({ error: error.stack })
  }
}
