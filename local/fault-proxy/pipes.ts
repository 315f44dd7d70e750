import type { Socket } from 'node:net'
import { seededRandom } from '../random.js'
import { createBitFlips } from './bit-flips.js'
import type { ConnectionParts } from './connection.js'
import { createCutter, type Strike } from './cutter.js'
import type { FrameReader } from './frames.js'
import type { EventDetails, ProxyEventName } from './log.js'
import { createPipe, type Pipe } from './pipe.js'
import type { Direction } from './rules.js'
import { sumToxics, type Toxics } from './toxics.js'

/** Both directions of a connection. */
export interface Pipes extends Readonly<Record<Direction, Pipe>> {
  /** The toxics of this connection alone. */
  readonly toxics: Readonly<Record<Direction, Set<Partial<Toxics>>>>
  /** Applies changed toxics. */
  readonly update: () => void
  /** Discards what is queued. */
  readonly clear: () => void
}

/** The pipes between a client and an upstream socket. `frames` finds the frames of the server. */
export function createPipes(
  parts: ConnectionParts,
  upstream: Socket,
  frames: FrameReader,
  note: (event: ProxyEventName, details: EventDetails) => void,
  onStrike: (strike: Strike) => void,
): Pipes {
  const { client, script, seed, number } = parts
  const toxicsOf = { up: new Set<Partial<Toxics>>(), down: new Set<Partial<Toxics>>() }
  const up = createDirection('up', client, upstream)
  const down = createDirection('down', upstream, client, frames)

  function createDirection(
    direction: Direction,
    from: Socket,
    to: Socket,
    reader?: FrameReader,
  ): Pipe {
    const random = (purpose: string): (() => number) =>
      seededRandom(seed, `${purpose} ${direction} connection ${number}`)
    const toxics = (): Toxics => sumToxics([parts.toxics[direction], ...toxicsOf[direction]])
    const flips = createBitFlips(
      random('corrupt'),
      () => toxics().corruptRate,
      function onFlip(bytes, strike) {
        const cause = strike && { rule: strike.rule.index, frame: strike.frame }
        note('corrupt', { direction, bytes, ...cause })
      },
    )
    return createPipe({
      from,
      to,
      toxics,
      random: random('jitter'),
      cutter: createCutter(direction, script, flips, reader),
      onStrike,
      onEnd: error => note(error === undefined ? 'end' : 'error', { direction, error }),
    })
  }

  return {
    up,
    down,
    toxics: toxicsOf,
    update() {
      up.update()
      down.update()
    },
    clear() {
      up.clear()
      down.clear()
    },
  }
}
