'use client'

import { useEffect, useState } from 'react'
import { createClient, decoders, retry, v3, verify } from 'sluice'

async function readLatest() {
  const { feed, signers } = await (await fetch('/facts')).json()
  const client = createClient({
    endpoint: window.location.origin,
    wsEndpoint: window.location.origin.replace('http', 'ws'),
    plugins: [decoders(v3), verify({ signers }), retry()],
  })
  const { observationsTimestamp, decoded } = await client.getLatestReport(feed)
  await client.close()
  return { time: observationsTimestamp, price: decoded.price.toString() }
}

export default function Price() {
  const [shown, show] = useState('')
  useEffect(() => {
    async function load() {
      const answer = await readLatest().catch(error => ({ error: String(error.stack) }))
      show(answer.price)
      await fetch('/done', { method: 'POST', body: JSON.stringify(answer) })
    }
    void load()
  }, [])
  return <p>{shown}</p>
}
