import { expect, test } from '@jest/globals'
import type { ErrorCode } from 'sluice/core'
import { forRemote } from '../outcome.js'

const SENT = '; the request may have been carried out'
const UNUSABLE = 'the vault can not be used'

test.each<[ErrorCode, string, string]>([
  [
    'VAULT',
    'secret a: 0 of 2\n  holder 0 at http://10.0.0.1:7500: it says "x: y"\n  holder 1: it failed',
    'secret a: 0 of 2\n  holder 0: it says "x: y"\n  holder 1: it failed',
  ],
  [
    'VAULT',
    `secret a: 0 of 2\n  holder 0 at http://10.0.0.1: it says "see /etc"${SENT}`,
    `secret a: 0 of 2${SENT}`,
  ],
  ['VAULT', "manifests/5.json can't be read: EIO", "manifests/5.json can't be read: EIO"],
  ['VAULT', "/var/seen can't be written: ENOSPC", UNUSABLE],
  ['VAULT', 'the holder at http://10.0.0.1 has no share', UNUSABLE],
  ['VAULT', 'C:\\vault is missing', UNUSABLE],
  ['VAULT', `another writer than "/var/seen"${SENT}`, UNUSABLE + SENT],
  [
    'ROLLBACK',
    '/srv/vault is older than it was: change 5 was seen, and this is 4',
    'the vault is not in the state that was seen',
  ],
  ['ROLLBACK', 'change 5 was seen, and this is 4', 'change 5 was seen, and this is 4'],
  [
    'PERMISSIONS',
    'vault.json has the mode 0664: others may write it',
    'others may read or change files that are only for their owner',
  ],
  ['AUDIT', "audit.jsonl can't be written: ENOSPC", 'the request can not be recorded'],
  ['PLUGIN', "plugin a: ENOENT: no such file or directory, open '/srv/a'", 'a plugin failed'],
  ['PLUGIN', 'plugin a: no quota is left', 'plugin a: no quota is left'],
  // These are about the request, whose URL is the caller's own.
  ['POLICY', 'https://10.0.0.1/ is not allowed\nx', 'https://10.0.0.1/ is not allowed\nx'],
])('%s: a remote caller reads of %j: %s', (code, message, told) => {
  const more = { mayHaveBeenSent: false, retryAfter: 5 }
  expect(forRemote({ code, message, ...more })).toEqual({ code, message: told, ...more })
})
