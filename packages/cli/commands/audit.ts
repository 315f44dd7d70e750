import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { AuditHead, AuditPlace } from '@sluice/confidential-http'
import type { Command } from 'commander'
import { ValidationError } from 'sluice/core'
import { writeWhole } from 'sluice/internal'
import { addExamples, number } from '../input/arguments.js'
import { type IO, say } from '../io.js'
import { bold } from '../output/colours.js'

/** Adds `audit` and its command. */
export function addAuditCommands(program: Command, io: IO): void {
  const audit = program
    .command('audit')
    .description('read the record of an enclave, a vault or one of its holders')
  addExamples(audit.command('verify'), 'sluice audit verify audit.log --head 12:9f8e…')
    .description('verify that no record was changed, added or removed, through all files of a log')
    .argument(
      '<file>',
      'the one that sluice enclave --audit writes, or audit.jsonl of a vault or a holder',
    )
    .option(
      '--head <number:hash>',
      'a head that was printed before: without one, records that were removed from the end are not noticed',
    )
    .option(
      '--first <n>',
      'the number of the record that the log begins with, where its oldest files are elsewhere',
      number,
      1,
    )
    .option(
      '--state <file>',
      'remember here up to where the log was verified, and go on from there',
    )
    .option('--json', 'print JSON')
    .action(async (file: string, { head, first: begin, state, json }: VerifyOptions) => {
      const { verifyAudit } = await import('@sluice/confidential-http')
      const seen = head === undefined ? {} : { head: readHead(head) }
      const from = state === undefined ? undefined : readState(state)
      const found = await verifyAudit(file, {
        ...seen,
        ...(from === undefined ? {} : { from }),
        lastChange: lastChangeIn(dirname(resolve(file))),
        first: begin,
      })
      if (state !== undefined && found.place !== undefined)
        await writeWhole(resolve(state), `${JSON.stringify(found.place)}\n`)
      if (json) {
        say(io, JSON.stringify(found))
        return
      }
      if (found.head.seq === 0) {
        say(io, bold('The log is empty: it has no record'))
        return
      }
      const { files, first, head: last, unanswered, unrecorded, cuts, isStopped } = found
      const numbers = (list: readonly number[]): string =>
        list.length === 0 ? 'none' : list.join(', ')
      say(
        io,
        [
          bold(`Records ${first} to ${last.seq} follow each other`),
          `files       ${files.join(', ')}`,
          `unanswered  ${numbers(unanswered)}`,
          ...(unrecorded.length === 0 ? [] : [`unrecorded  ${numbers(unrecorded)}`]),
          ...cuts.map(
            cut => `cut line    ${cut.file}, at byte ${cut.at}, of which ${cut.bytes} are left`,
          ),
          `end         ${isStopped ? 'the enclave was closed' : 'the enclave runs, or was ended'}`,
          `head        ${last.seq}:${last.hash}`,
        ].join('\n'),
      )
    })
}

interface VerifyOptions {
  readonly head?: string
  readonly first: number
  readonly state?: string
  readonly json?: boolean
}

function readState(file: string): AuditPlace | undefined {
  if (!existsSync(file)) return undefined
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    throw new ValidationError(`--state: ${file} is not what sluice audit verify has written`)
  }
}

/** The number of the last change of the vault in a directory; 0 where there is none. */
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
