// Searches for a secret wherever a caller, or who watches it, could come by it: `npm run leaks`. Ends with 1 where it is found, or
// where a decoy that was leaked on purpose is not, or where an enclave keeps more copies of it than it may. With `copies` it counts
// only these, for more requests.
import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { reportCopies } from './copies.mjs'
import { countHits, formsOf } from './forms.mjs'
import { readMemory } from './memory.mjs'

if (process.argv.includes('copies'))
  process.exit(Math.min(1, await reportCopies({ counts: [1, 10, 1000] })))

const here = fileURLToPath(new URL('.', import.meta.url))
const support = join(here, '../support')
const digits = () => randomBytes(18).toString('hex')
const core = digits()
const decoy = digits()
const secret = `"\\${core}/%&`
const [coreForms, decoyForms] = [formsOf(core), formsOf(decoy)]
const started = performance.now()

for (const form of formsOf(core))
  if (countHits([Buffer.concat([randomBytes(9), form])], coreForms) === 0)
    throw new Error('the search does not find a form of the secret')

const rows = []
let failures = 0
/** A place where nothing can be planted has no decoy; one that must hold the secret shows that the search is right. */
function search(place, pieces, { hasDecoy = true, holdsSecret = false } = {}) {
  const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0)
  const hits = countHits(pieces, coreForms)
  const planted = hasDecoy ? countHits(pieces, decoyForms) > 0 : undefined
  const isBad = holdsSecret ? hits === 0 : hits > 0
  if (isBad || planted === false || bytes === 0) failures++
  rows.push({
    place,
    bytes,
    hits: holdsSecret ? `${hits} (as it must)` : hits,
    'planted leak': planted === undefined ? '-' : planted ? 'found' : 'NOT FOUND',
    verdict: isBad || planted === false || bytes === 0 ? 'FAIL' : 'ok',
  })
}
function skip(place, why) {
  rows.push({ place, bytes: 0, hits: '-', 'planted leak': '-', verdict: `skipped: ${why}` })
}

/** Every page of a process that can be read: what a core dump would hold, and more. */
const memoryOf = pid => [...readMemory(pid)].map(({ bytes }) => bytes)

/** Collects what a process prints. */
function collect(child) {
  const chunks = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => chunks.push(chunk))
  return () => Buffer.concat(chunks)
}

/** How long each message is waited for, in milliseconds. */
const PATIENCE = 120_000

/** Waits for a message of a child; a child that ends first, or does not say it, fails. */
function message(child, isIt) {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(new Error('a process did not say what was waited for'))
    const timer = setTimeout(giveUp, PATIENCE)
    child.on('message', said => {
      if (!isIt(said)) return
      clearTimeout(timer)
      resolve(said)
    })
    child.once('exit', code => reject(new Error(`a process ended early, with ${code}`)))
  })
}

const everything = 'http,https,http2,tls,net,stream,worker,undici,fs,module,esm,timer,fetch'
const requireOf = file => `--require ${join(support, file)}`
const planting = requireOf('../leaks/plant.cjs')

/** The environment of holders whose every step is seen. */
const holderEnvironment = {
  PATH: process.env.PATH,
  DECOY: decoy,
  NODE_DEBUG: everything,
  NODE_OPTIONS: planting,
}

/** A server, a vault and an enclave, in a process that holds the secret. */
async function startWorld(environment = {}) {
  const child = fork(join(support, 'world-process.mjs'), {
    silent: true,
    execArgv: [],
    env: {
      PATH: process.env.PATH,
      SECRETS: JSON.stringify([{ apiKey: secret }, {}]),
      POLICIES: JSON.stringify({
        apiKey: { hosts: ['localhost', '127.0.0.1'], customRoots: true },
      }),
      ...environment,
    },
  })
  const printed = collect(child)
  const { ready } = await message(child, said => said.ready !== undefined)
  const ask = async name => {
    const answer = message(child, said => said[name] !== undefined)
    child.send(name)
    return (await answer)[name]
  }
  async function close() {
    if (child.exitCode !== null) return
    const ended = once(child, 'exit')
    child.disconnect()
    await ended
  }
  return { child, ready, printed, ask, close }
}

const embedded = await startWorld()
const spread = await startWorld({
  HOLDERS: JSON.stringify(holderEnvironment),
  CALLER_LIMITS: JSON.stringify({ requestsAtOnce: 2, bytesPerSecond: 1_000_000 }),
})
const inputOf = ({ url, ca }) => ({
  vaultDonSecrets: [{ key: 'apiKey' }],
  request: {
    url: `${url}/`,
    method: 'POST',
    bodyString: 'key={{.apiKey}}',
    multiHeaders: { Authorization: { values: ['Bearer {{.apiKey}}'] } },
    customRootCaCertPem: btoa(ca),
    timeout: '10s',
  },
})

/** Searches a caller whose request is under way while `meanwhile` takes place. */
async function searchCaller(kind, { child: world, ready }, meanwhile = () => {}) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-leaks-'))
  const held = message(world, said => said.hit?.path === '/hold')
  const caller = fork(join(support, 'isolated-caller.cjs'), {
    silent: true,
    execArgv: ['--import', join(support, 'spy.cjs')],
    env: {
      PATH: process.env.PATH,
      DECOY: decoy,
      NODE_DEBUG: everything,
      NODE_DEBUG_NATIVE: 'http,worker',
      NODE_OPTIONS: `${requireOf('spy.cjs')} ${planting}`,
      CALLER: JSON.stringify({
        kind,
        folder,
        marker: digits(),
        input: inputOf(ready),
        local: {
          vault: ready.vault,
          stack: new URL('../support/faulty-stack.cjs', import.meta.url).href,
        },
        remote: {
          url: ready.enclaveURL,
          enclavePublicKey: ready.enclavePublicKey,
          callerSecretKey: ready.callerSecretKey,
        },
      }),
    },
  })
  const printed = collect(caller)
  try {
    const ended = once(caller, 'exit').then(([code, signal]) => {
      throw new Error(`the caller ended early, with ${code ?? signal}`)
    })
    await Promise.race([held, ended])
    caller.send('held')
    await message(caller, said => said === 'release')
    await meanwhile()
    world.send('release')
    await message(caller, said => said === 'ready')
    const files = readdirSync(folder)
    const read = end =>
      files.filter(name => name.endsWith(end)).map(name => readFileSync(join(folder, name)))
    search(
      `${kind}: heap of the caller, ${read('.heapsnapshot').length} moments`,
      read('.heapsnapshot'),
    )
    search(`${kind}: buffers of the caller`, read('.buffers'))
    const output = read('output')
    const isLimited = output.some(each => each.includes('RATE_LIMIT'))
    if (isLimited !== (kind === 'remote')) throw new Error('the limits of callers were not met')
    search(`${kind}: logs of all levels, errors with their causes, responses`, output)
    const lines = printed().toString('latin1').split('\n')
    const seen = lines.filter(line => line.startsWith('spy ')).join('\n')
    const rest = lines.filter(line => !line.startsWith('spy ')).join('\n')
    search(`${kind}: what preloads see (--require, --import, NODE_OPTIONS)`, [
      Buffer.from(seen, 'latin1'),
    ])
    search(`${kind}: stdout and stderr, with NODE_DEBUG`, [Buffer.from(rest, 'latin1')])
    if (process.platform === 'linux') {
      const of = name => readFileSync(`/proc/${caller.pid}/${name}`)
      search(`${kind}: environment and command line`, [of('environ'), of('cmdline')])
      const place = `${kind}: whole memory of the process`
      try {
        search(place, memoryOf(caller.pid), { holdsSecret: kind === 'local' })
      } catch (error) {
        skip(place, `it can't be read here (${error.code ?? error.message})`)
      }
    } else skip(`${kind}: environment, command line and memory`, 'only Linux shows them')
  } finally {
    if (caller.connected) caller.send('go')
    const killing = setTimeout(() => caller.kill('SIGKILL'), 10_000)
    if (caller.exitCode === null && caller.signalCode === null) await once(caller, 'exit')
    clearTimeout(killing)
    rmSync(folder, { recursive: true, force: true })
  }
}

/** An enclave in a process that was started with NODE_DEBUG, in spite of all. */
async function searchEnclave({ ready }) {
  const child = fork(join(here, 'enclave.mjs'), {
    silent: true,
    execArgv: [],
    env: {
      PATH: process.env.PATH,
      DECOY: decoy,
      NODE_DEBUG: everything,
      NODE_DEBUG_NATIVE: 'http',
      ENCLAVE: JSON.stringify({ vault: ready.vault, input: inputOf(ready) }),
    },
  })
  const printed = collect(child)
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`the enclave ended with ${code}:\n${printed()}`)
  search('an enclave: stdout and stderr, with NODE_DEBUG', [printed()])
}

/** Every file below a directory. */
function filesOf(directory) {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => readFileSync(join(entry.parentPath ?? entry.path, entry.name)))
}

/** Processes that hold a share of the key, of a vault that was reshared and rotated, and may not hold a secret. */
async function searchHolders({ ask }) {
  const holders = await ask('holders')
  const printed = holders.map(holder => Buffer.from(holder.printed, 'latin1'))
  // Each is asked at least by the resharing.
  if (!printed.every(each => each.includes('SERVER new http connection')))
    throw new Error('a holder printed no connection')
  search('holders that are processes: stdout and stderr, with NODE_DEBUG', printed)
  const place = 'holders that are processes: whole memory'
  if (process.platform !== 'linux') return skip(place, 'only Linux shows it')
  try {
    for (const [index, { pid }] of holders.entries()) search(`${place}, ${index}`, memoryOf(pid))
  } catch (error) {
    skip(place, `it can't be read here (${error.code ?? error.message})`)
  }
}

/** What a remote enclave leaves. */
async function searchEnclaveElsewhere({ child, ready, ask, printed }) {
  const without = { hasDecoy: false }
  search('the remote enclave: its audit log', [readFileSync(ready.audit)], without)
  search('the remote enclave: its log', [Buffer.from(JSON.stringify(await ask('lines')))], without)
  // The process that puts the secret into the vault, and the API that gets it: the only one that may hold it.
  if (process.platform === 'linux')
    search('the remote enclave: whole memory of the process', memoryOf(child.pid), {
      ...without,
      holdsSecret: true,
    })
  if (printed().length > 0) search('the remote enclave: stdout and stderr', [printed()], without)
}

try {
  await searchCaller('local', embedded)
  await searchEnclave(embedded)
  await searchCaller('remote', spread, async () => {
    const leftOut = await spread.ask('changeKey')
    if (leftOut.length > 0) throw new Error(`holders were left out: ${leftOut}`)
  })
  await searchHolders(spread)
  await searchEnclaveElsewhere(spread)
  const files = { hasDecoy: false }
  search('a vault in its directory: all files', filesOf(embedded.ready.directory), files)
  search(
    'a vault of processes: all files, of its holders too',
    filesOf(spread.ready.directory),
    files,
  )
} finally {
  await embedded.close()
  await spread.close()
}

console.table(rows)
if (process.platform === 'linux') failures += await reportCopies({ counts: [10] })
const seconds = ((performance.now() - started) / 1000).toFixed(0)
console.log(
  failures === 0
    ? `leaks: none in ${rows.length} places, in ${seconds} s`
    : `leaks: ${failures} of ${rows.length} places fail, in ${seconds} s`,
)
process.exitCode = failures === 0 ? 0 : 1
