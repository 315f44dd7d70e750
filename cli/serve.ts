import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { type DataEngineOptions, startDataEngine } from '../local/index.js'
import { bold } from './view.js'

/** Runs a local data engine until `signal` aborts, prints how to reach it, and writes its signers into a file where one is named. */
export async function serve(
  options: DataEngineOptions,
  signal: AbortSignal,
  out: NodeJS.WriteStream,
  signersFile?: string,
): Promise<number> {
  const engine = await startDataEngine(options)
  const { f, signers } = engine.network
  if (signersFile !== undefined) await writeFile(signersFile, JSON.stringify(engine.network))
  out.write(
    [
      bold('A local data engine is running; Ctrl-C ends it'),
      `REST_URL=${engine.endpoint}`,
      `WS_URL=${engine.wsEndpoint}`,
      `API_KEY=${engine.apiKey}`,
      `USER_SECRET=${engine.userSecret}`,
      '',
      ...(engine.origins.length > 1
        ? engine.origins.map(origin => `origin ${origin.id} at ${origin.wsEndpoint}`)
        : []),
      `${engine.feeds.length} feeds; every report signed by ${f + 1} of ${signers.length} signers`,
      ...engine.feeds.map(feedID => `  ${feedID}`),
      '',
    ].join('\n'),
  )
  if (!signal.aborted) await once(signal, 'abort')
  await engine.close()
  return 0
}
