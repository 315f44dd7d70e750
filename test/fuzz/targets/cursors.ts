import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileCursors } from '../../../client/stores/file-cursors.js'
import type { Target } from '../../support/fuzz/fuzz.js'
import { assert, json } from '../../support/fuzz/target.js'
import { feeds } from '../samples.js'

export function cursors(): Target<string> {
  const file = join(mkdtempSync(join(tmpdir(), 'sluice-fuzz-')), 'cursors.json')
  const store = fileCursors(file)
  const saved = Object.fromEntries(feeds.map((feed, at) => [feed, 1_700_000_000 + at]))
  return json(
    'cursor files',
    [saved, {}],
    text => {
      writeFileSync(file, text)
      return store.load()
    },
    {
      check(result) {
        if (result === undefined) return
        for (const [feedID, cursor] of Object.entries(result as object)) {
          assert(/^0x[0-9a-f]{64}$/.test(feedID), 'a feed id in normal form')
          assert(Number.isSafeInteger(cursor) && cursor >= 0, 'a time')
        }
      },
    },
  )
}
