const { createClient, decodeReport, isStreamsError } = require('sluice')

const client = createClient(JSON.parse(process.env.ENGINE))
afterAll(() => client.close())

test('requests and decodes reports', async () => {
  const [{ feedID }] = await client.listFeeds()
  const { fullReport, decoded } = await client.getLatestReport(feedID)
  expect(decodeReport(fullReport, feedID)).toEqual(decoded)
  const error = await client.getLatestReport(feedID.replace(/.$/, 'x')).catch(thrown => thrown)
  expect(isStreamsError(error, 'VALIDATION')).toBe(true)
})

test('says what a stream lacks', async () => {
  const [{ feedID }] = await client.listFeeds()
  const stream = client.createStream([feedID])
  const error = await stream.connect().catch(thrown => thrown)
  expect(isStreamsError(error, 'VALIDATION')).toBe(true)
  expect(error.message).toContain('resolve packages with the condition node')
  await stream.close()
})
