// Writes each price of a feed to a file. A report is acknowledged once it is written, so the cursor
// never passes a report that is not.
import { appendFile } from 'node:fs/promises'
import {
  Injectable,
  Logger,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
} from '@nestjs/common'
import type { Report, Stream } from 'sluice'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { fileCursors } from 'sluice/stores'
import { InjectClient, type ReportsClient } from './sluice.module.js'

@Injectable()
export class PricesService implements OnApplicationBootstrap, OnModuleDestroy {
  readonly #logger = new Logger(PricesService.name)
  readonly #client: ReportsClient
  readonly #path = process.env.PRICES ?? 'prices.txt'
  #stream: Stream<DecodedReport> | undefined

  constructor(@InjectClient() client: ReportsClient) {
    this.#client = client
  }

  async onApplicationBootstrap(): Promise<void> {
    const stream = this.#client.createStream(process.env.FEED_ID ?? '', {
      maxReconnectAttempts: Number.POSITIVE_INFINITY,
      cursors: fileCursors(process.env.CURSORS ?? 'cursors.json'),
    })
    this.#stream = stream
    // The report counts as acknowledged when this promise resolves.
    stream.on('report', report => this.#write(report))
    stream.on('gap', ({ from, to, cause }) => this.#logger.warn(`missing ${from}–${to}: ${cause}`))
    stream.on('error', error => this.#logger.error(error.message))
    await stream.connect()
    this.#logger.log('the stream is up')
  }

  /** Handlers that run go on, and the cursor is saved, before the process ends. */
  async onModuleDestroy(): Promise<void> {
    await this.#stream?.close()
    this.#logger.log('the stream is closed')
  }

  async #write({ observationsTimestamp, decoded }: Report<DecodedReport>): Promise<void> {
    if (decoded.version !== 'V3') return
    await appendFile(this.#path, `${observationsTimestamp} ${decoded.price}\n`)
  }
}
