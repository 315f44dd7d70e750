import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { AuditHead, AuditPlace } from '@sluice/confidential-http'
import { ValidationError } from 'sluice/core'
import { writeWhole } from 'sluice/internal'
import { type AddCommand, defineCommand, given, groupCommands } from '../command.js'
import { say } from '../io.js'
import { bold } from '../output/colours.js'

const addVerifyCommand = defineCommand({
  name: 'verify',
  help: 'verify that no record was changed, added or removed, through all files of a log',
  arguments: {
    '<file>': 'the one that sluice enclave --audit writes, or audit.jsonl of a vault or a holder',
  },
  options: {
    head: {
      value: 'number:hash',
      help: 'a head that was printed before: without one, records that were removed from the end are not noticed',
    },
    first: {
      is: 'number',
      help: 'the number of the record that the log begins with, where its oldest files are elsewhere',
      default: 1,
    },
    state: {
      is: 'file',
      help: 'remember here how far the log is verified, and start from there the next time',
    },
    json: { help: 'print JSON' },
  },
  examples: ['sluice audit verify audit.log --head 12:9f8e…'],
  async run({ head, first, state, json }, io, { file }) {
    const { verifyAudit } = await import('@sluice/confidential-http')
    const found = await verifyAudit(file, {
      ...given({
        head: head === undefined ? undefined : readHead(head),
        from: state === undefined ? undefined : readState(state),
      }),
      lastChange: lastChangeIn(dirname(resolve(file))),
      first,
    })
    if (state !== undefined && found.place !== undefined)
      await writeWhole(resolve(state), `${JSON.stringify(found.place)}\n`)
    if (json) return say(io, JSON.stringify(found))
    const { head: last, unanswered, unrecorded } = found
    if (last.seq === 0) return say(io, bold('The log is empty: it has no record'))
    const lines = [
      bold(`Records ${found.first} to ${last.seq} follow each other`),
      `files       ${found.files.join(', ')}`,
      `unanswered  ${unanswered.join(', ') || 'none'}`,
      ...(unrecorded.length === 0 ? [] : [`unrecorded  ${unrecorded.join(', ')}`]),
      ...found.cuts.map(
        cut => `cut line    ${cut.file}, at byte ${cut.at}, of which ${cut.bytes} are left`,
      ),
      `end         ${found.isStopped ? 'the enclave was closed' : 'the enclave runs, or was ended'}`,
      `head        ${last.seq}:${last.hash}`,
    ]
    say(io, lines.join('\n'))
  },
})

/** Adds `audit` and its command. */
export const addAuditCommands: AddCommand = groupCommands(
  'audit',

  [addVerifyCommand],
)

function readState(file: string): AuditPlace | undefined {
  if (!existsSync(file)) return undefined
  try {
    const place = JSON.parse(readFileSync(file, 'utf8'))
    if (!Number.isSafeInteger(place.seq)) throw new TypeError('no place')
    return place
  } catch {
    throw new ValidationError(`--state: ${file} is not a file that sluice audit verify has written`)
  }
}

/** The number of the last change of the vault in a directory; 0 if the directory has no vault. */
function lastChangeIn(directory: string): number {
  const folder = join(directory, 'manifests')
  const files = existsSync(folder) ? readdirSync(folder) : []
  return Math.max(0, ...files.flatMap(each => Number(/^(\d+)\.json$/.exec(each)?.[1] ?? 0)))
}

function readHead(text: string): AuditHead {
  const [, seq, hash] = /^([1-9][0-9]{0,14}):([0-9a-f]{64})$/.exec(text) ?? []
  if (seq === undefined || hash === undefined)
    throw new ValidationError('--head must be a number, a colon and 64 hexadecimal digits')
  return { seq: Number(seq), hash }
}
