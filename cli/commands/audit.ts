import type { Command } from 'commander'
import type { AuditHead } from '../../confidential-http/index.js'
import { ValidationError } from '../../core/errors.js'
import { addExamples, number } from '../input/arguments.js'
import { type IO, say } from '../io.js'
import { bold } from '../output/colours.js'

/** Adds `audit` and its command. */
export function addAuditCommands(program: Command, io: IO): void {
  const audit = program.command('audit').description('read the record of an enclave’s requests')
  addExamples(audit.command('verify'), 'sluice audit verify audit.log --head 12:9f8e…')
    .description('verify that no record was changed, added or removed, through all files of a log')
    .argument('<file>', 'the one that sluice enclave --audit writes')
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
    .option('--json', 'print JSON')
    .action(async (file: string, { head, first: begin, json }: VerifyOptions) => {
      const { verifyAudit } = await import('../../confidential-http/index.js')
      const seen = head === undefined ? {} : { head: readHead(head) }
      const found = await verifyAudit(file, { ...seen, first: begin })
      if (json) {
        say(io, JSON.stringify(found))
        return
      }
      if (found.head.seq === 0) {
        say(io, bold('The log is empty: it has no record'))
        return
      }
      const { files, first, head: last, unanswered, cuts, isStopped } = found
      const numbers = (list: readonly number[]): string =>
        list.length === 0 ? 'none' : list.join(', ')
      say(
        io,
        [
          bold(`Records ${first} to ${last.seq} follow each other`),
          `files       ${files.join(', ')}`,
          `unanswered  ${numbers(unanswered)}`,
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
  readonly json?: boolean
}

function readHead(text: string): AuditHead {
  const [, seq, hash] = /^([1-9][0-9]{0,14}):([0-9a-f]{64})$/.exec(text) ?? []
  if (seq === undefined || hash === undefined)
    throw new ValidationError('--head must be a number, a colon and 64 hexadecimal digits')
  return { seq: Number(seq), hash }
}
