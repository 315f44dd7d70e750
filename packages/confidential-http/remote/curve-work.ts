import type { BoxKeys } from 'sluice/internal'
import { openRequest, sealAnswer, sealBootKey } from './sealing.js'

/** A piece of work that takes milliseconds of arithmetic on the curve. */
export type CurveTask =
  | { readonly type: 'seal-boot-key'; readonly json: string; readonly asker: Uint8Array }
  | { readonly type: 'open-request'; readonly sealed: Uint8Array }
  | { readonly type: 'seal-answer'; readonly json: string; readonly replyTo: Uint8Array }

/** The key pairs of an enclave. */
export interface CurveKeys {
  readonly enclave: BoxKeys
  /** The boot key, made at each start. */
  readonly boot: BoxKeys
}

/** What comes of each kind of work. */
export type CurveResult<Task extends CurveTask> = Task extends { type: 'open-request' }
  ? ReturnType<typeof openRequest>
  : Uint8Array

/** Does a piece of work. */
export function runCurveTask(task: CurveTask, { enclave, boot }: CurveKeys): unknown {
  switch (task.type) {
    case 'seal-boot-key':
      return sealBootKey(task.json, task.asker, enclave)
    case 'open-request':
      return openRequest(task.sealed, boot)
    case 'seal-answer':
      return sealAnswer(task.json, task.replyTo, boot)
  }
}
