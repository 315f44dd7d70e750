import {
  confidential,
  sealed,
} from '../../packages/confidential-http/test/fuzz/confidential-http.js'
import { vaultHolders } from '../../packages/confidential-http/test/fuzz/vault-holders.js'
import type { Target } from '../support/fuzz/fuzz.js'
import { cursors } from './targets/cursors.js'
import { contexts, decoding, frames, verifying } from './targets/reports.js'
import { answers, headersRead, refusal } from './targets/rest.js'
import { tdh2 } from './targets/tdh2.js'
import { connections } from './targets/websocket.js'

/** All targets, by name. */
export async function allTargets(): Promise<ReadonlyMap<string, Target<unknown>>> {
  const targets = [
    connections,
    frames(),
    decoding,
    contexts,
    verifying,
    ...answers(),
    refusal,
    ...headersRead,
    ...tdh2,
    ...confidential,
    ...(await sealed()),
    ...(await vaultHolders()),
    cursors(),
  ] as unknown as readonly Target<unknown>[]
  return new Map(targets.map(target => [target.name, target]))
}
