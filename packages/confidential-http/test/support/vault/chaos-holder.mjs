// A holder of a vault, in a process of its own, which lies while a file says so. Run by chaos.mjs.
import { existsSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [, , sources, directory, host, port] = process.argv
const load = path => import(pathToFileURL(join(sources, `${path}.js`)).href)
const [
  { Holder },
  { HolderFiles },
  { HolderCounts, serveHolder },
  { VaultFolder },
  keyFile,
  audit,
] = await Promise.all(
  [
    'vault/process/holder',
    'vault/process/holder-files',
    'vault/process/start-holder',
    'vault/files',
    'key-file',
    'audit/audit-log',
  ].map(load),
)
const library = await import('sluice/internal')
const tdh2 = await import('sluice/tdh2')
const keys = library.boxKeys(Buffer.from(keyFile.readKeyFile(join(directory, 'holder.key')), 'hex'))
const folder = new VaultFolder(directory, library.createPermissions())
const files = new HolderFiles(folder)
const honest = await Holder.open(files, keys)
const say = line => writeSync(1, `${JSON.stringify(line)}\n`)

/** A share of the right form that is not of this holder's part of the key, or no share at all. */
function lieAbout({ sealed }, { recipient }) {
  if (sealed === undefined) return { sealed }
  say({ lied: 'release' })
  const to = Buffer.from(recipient, 'base64')
  const [wrong] = tdh2.generateKeys({ threshold: 1, nodes: 1 }).shares
  const scalar = Buffer.from(JSON.parse(tdh2.formatPrivateShare(wrong)).V, 'base64')
  return { sealed: Math.random() < 0.5 ? library.seal(scalar, to) : Buffer.from(scalar) }
}

async function answer(request, asker) {
  const made = await honest.answer(request, asker)
  if (!existsSync(join(directory, 'lie'))) return made
  if (request.kind === 'release') return lieAbout(made, request)
  if (request.kind === 'deal') {
    say({ lied: 'deal' })
    return {
      ...made,
      dealing: made.dealing.replace(/"Commitments":\["....../, '"Commitments":["AAAAAA'),
    }
  }
  return made
}

const log = process.env.VERBOSE ? { warn: text => say({ warn: text }) } : {}
const records = await audit.openAuditLog({ file: join(directory, 'audit.jsonl') })
const counts = new HolderCounts()
const holder = { answer, callers: () => honest.callers() }
const serving = { records, holder, keys, host, port: Number(port), log, counts }
const running = await serveHolder(serving)
say({ url: running.url, key: running.publicKey })
