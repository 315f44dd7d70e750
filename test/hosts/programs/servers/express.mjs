import express from 'express'
import { announce } from './announce.mjs'
import { client, connect, latest, newest } from './service.mjs'

const app = express()
app.get('/latest', async (_request, response) => response.json(await latest()))
app.get('/newest', (_request, response) => response.json(newest()))

await connect()
const server = app.listen(0, '127.0.0.1', () => announce(server.address().port))
process.once('SIGTERM', async () => {
  server.close()
  server.closeIdleConnections()
  await client.close()
})
