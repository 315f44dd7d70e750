import { join } from 'node:path'
import { test } from '@jest/globals'
import { runInChromium } from '../support/chromium-program.js'

test('the page of examples/react shows the prices of a gateway', async () => {
  await runInChromium(join(__dirname, 'react.mjs'), 6)
}, 120_000)
