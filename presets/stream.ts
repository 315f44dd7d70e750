import type { StreamOptions } from '../client/stream/options.js'
import { isStream } from '../client/stream/stream.js'
import type { Stream as AnyStream } from '../client/stream/stream-api.js'
import { ValidationError } from '../core/errors.js'
import type { DecodedReport } from '../plugins/decoders/versions.js'
import { type Config, createClient } from './create-client.js'

/** A stream of reports, over one connection or several. */
export type Stream<Data = unknown> = AnyStream<Data>

/** The type of the value `Stream`. */
export interface StreamConstructor {
  new (
    config: Config,
    feedIDs: string | readonly string[],
    options?: StreamOptions,
  ): AnyStream<DecodedReport>
  /** True for every stream of the library, however it was made. */
  [Symbol.hasInstance](value: unknown): value is AnyStream
}

/** Makes a stream with a client of its own; `instanceof Stream` is true for every stream. It can't be extended. */
export const Stream: StreamConstructor = /* @__PURE__ */ Object.defineProperties(
  function (config: Config, feedIDs: string | readonly string[], options?: StreamOptions) {
    // A subclass has it as its prototype.
    if (new.target !== undefined && Object.getPrototypeOf(new.target) !== Function.prototype)
      throw new ValidationError("Stream can't be extended: wrap a stream instead")
    return createClient(config).createStream(feedIDs, options)
  },
  // A bundler may rename a function, but not this property.
  { name: { value: 'Stream' }, [Symbol.hasInstance]: { value: isStream } },
) as unknown as StreamConstructor
