const { createClient, decodeReport, isStreamsError, verifyReport } = require('sluice')

const client = createClient(JSON.parse(process.env.ENGINE))
afterAll(() => client.close())

test('requests and decodes reports', async () => {
  const [{ feedID }] = await client.listFeeds()
  const { fullReport, decoded } = await client.getLatestReport(feedID)
  expect(decodeReport(fullReport, feedID)).toEqual(decoded)
  const error = await client.getLatestReport(feedID.replace(/.$/, 'x')).catch(thrown => thrown)
  expect(isStreamsError(error, 'VALIDATION')).toBe(true)
})

test('verifies reports, and refuses what was changed', async () => {
  const signers = JSON.parse(process.env.SIGNERS)
  const [{ feedID }] = await client.listFeeds()
  const { fullReport } = await client.getLatestReport(feedID)
  const verified = await verifyReport(fullReport, { signers, curveLibrary: 'noble' })
  expect(verified.feedID).toBe(feedID)
  const changed = fullReport.slice(0, 700) + (fullReport[700] === '0' ? '1' : '0')
  const checking = verifyReport(changed + fullReport.slice(701), { signers, curveLibrary: 'noble' })
  await expect(checking).rejects.toMatchObject({ reason: 'unknown-signer' })
})

test('opens a stream', async () => {
  const [{ feedID }] = await client.listFeeds()
  const stream = client.createStream([feedID])
  await expect(stream.connect()).resolves.toBeUndefined()
  await stream.close()
})
