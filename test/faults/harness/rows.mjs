import { readdirSync } from 'node:fs'

const folder = new URL('../rows/', import.meta.url)

/**
 * A row of the matrix, as the files of `rows` list them.
 *
 * @typedef {object} Row
 * @property {string} row its number, with a letter where there are several of one
 * @property {string} fault what goes wrong, for the table
 * @property {object} bound what must hold of the figures of `figures.mjs` and of those that the row itself puts into
 *   `world.measured`, beside what holds of every row (`bounds.mjs`): a number is the most, a pair the least and the most,
 *   anything else the figure itself; `undefined` takes away what holds of every row. The table tells what is named here
 * @property {number} seconds about how long it takes; the longest begin first
 * @property {(world: object) => unknown} run makes it go wrong. `world.mjs` has what it can use; the fault lasts from `begin`
 *   to `end`
 * @property {(world: object) => unknown} [prepare] runs before there is a client
 * @property {boolean} [connect] false where `run` itself starts and connects the client
 * @property {number} [feeds] how many feeds there are (15, each of which reports once a second, or 3 that the row publishes);
 *   `subscribed`, how many of them are subscribed to
 * @property {object} [engine] options of the engine, `config` and `options` those of the client and of its stream, `client`
 *   those of the program around it
 * @property {object | false} [official] what is otherwise for the official SDK; false where it has no such thing
 * @property {string} [program] the module of `client/` that the program around the client takes in place of the SDK's
 * @property {string} [needs] what has to be on the machine: `nats-server`, or the row is left out
 * @property {boolean} [isREST] true where nothing is streamed
 * @property {boolean} [short] true where the row is part of `npm test`
 */

const numberOf = ({ row }) => Number.parseInt(row, 10)

/** The order of rows. */
export const compareRows = (a, b) => numberOf(a) - numberOf(b) || a.row.localeCompare(b.row)

/** All rows, in their order. */
export async function readRows() {
  const files = readdirSync(folder).filter(file => file.endsWith('.mjs'))
  const modules = await Promise.all(files.map(file => import(new URL(file, folder))))
  const rows = modules.flatMap(module => module.default)
  return rows.sort(compareRows)
}
