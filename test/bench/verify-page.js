// What the bench of verification runs in a page: bundled as a user bundles it, for a browser.
import { verifyReport } from 'sluice'
import { alternate } from './rounds.mjs'

const { reports, signers, ways, rounds, forMs } = await (await fetch('/facts')).json()

/** How many reports are verified in a second, one after the other. */
async function rate(curveLibrary) {
  const started = performance.now()
  let count = 0
  let elapsed = 0
  while (elapsed < forMs) {
    await verifyReport(reports[count++ % reports.length], { signers, curveLibrary })
    elapsed = performance.now() - started
  }
  return (1000 * count) / elapsed
}

const body = JSON.stringify(await alternate(ways, { rounds }, rate))
await fetch('/rates', { method: 'POST', body })
