import { join } from 'node:path'
import { test } from '@jest/globals'
import { runInChromium } from '@sluice/test-support/chromium-program.js'

test('a page in Chromium streams through a gateway, and verifies by itself', async () => {
  await runInChromium(join(__dirname, 'page', 'run.mjs'), 5)
}, 120_000)
