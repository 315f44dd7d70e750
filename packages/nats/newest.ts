import type { StoredMsg } from '@nats-io/jetstream'
import { accessLog, isAPIError, type ReportLog, streamError } from './log.js'
import { subjectOf } from './subjects.js'

/** Milliseconds by which the clock of the log may be behind that of the observers. */
export const CLOCK_MARGIN = 10_000
/** The code of the server where there is no such message. */
const NO_MESSAGE = 10_037

/** The feed's newest message, by the leader of the stream; null where it has none. */
export async function readNewest(
  { connection, stream, prefix }: ReportLog,
  feedID: string,
): Promise<StoredMsg | null> {
  const { manager } = await accessLog(connection)
  try {
    return await manager.streams.getMessage(stream, { last_by_subj: subjectOf(prefix, feedID) })
  } catch (thrown) {
    if (isAPIError(thrown, NO_MESSAGE)) return null
    throw streamError(stream, thrown)
  }
}
