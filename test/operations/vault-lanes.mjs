// An enclave with a vault whose holders are processes, and how it and a holder are made to fail.
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from './prometheus.mjs'
import { runCommand, startProcess, watchService } from './service.mjs'

/** A vault with three holders, two of which release a secret, and the keys of an enclave. */
async function startVault() {
  const cwd = mkdtempSync(join(tmpdir(), 'sluice-vault-'))
  const run = (...args) => runCommand(args, { cwd })
  const enclaveKey = (await run('keygen', 'enclave.key')).trim()
  const callerKey = (await run('keygen', 'caller.key')).trim()
  const writer = /\b([0-9a-f]{64})\b/.exec(await run('vault', 'init'))[1]
  const ports = [await freePort(), await freePort(), await freePort()]
  const keys = []
  for (const index of ports.keys()) {
    mkdirSync(join(cwd, `holder-${index}`), { mode: 0o700 })
    keys.push((await run('keygen', `holder-${index}/holder.key`)).trim())
  }
  const startHolder = index =>
    startProcess(
      [
        ...['vault', 'holder', '--dir', `holder-${index}`, '--listen', `127.0.0.1:${ports[index]}`],
        ...['--writer', writer, '--caller', enclaveKey, '--metrics', '0'],
        ...keys.flatMap(key => ['--peer', key]),
      ],
      { cwd },
    )
  const holders = [0, 1, 2].map(startHolder)
  await Promise.all(holders.map(each => each.find('out', /HOLDER_KEY=(.*)/)))
  const places = keys.flatMap((key, index) => [
    '--holder',
    `http://127.0.0.1:${ports[index]}=${key}`,
  ])
  return { cwd, run, holders, startHolder, places, enclaveKey, callerKey, writer }
}

export async function enclaveLane() {
  const vault = await startVault()
  const { cwd, run, holders, startHolder, places, callerKey } = vault
  await run('vault', 'reshare', ...places)
  const owner = JSON.parse(readFileSync(join(cwd, 'vault/vault.json'), 'utf8')).owner
  const callers = join(cwd, 'callers.json')
  const good = JSON.stringify({ [callerKey]: owner })
  writeFileSync(callers, good, { mode: 0o600 })
  const running = startProcess(
    [
      ...['enclave', '--key', 'enclave.key', '--callers', callers, '--port', '0', '--loopback'],
      ...['--audit', 'audit.log', '--metrics', '0', '--renew-after-requests', '1'],
    ],
    { cwd },
  )
  const url = await running.find('out', /ENCLAVE_URL=(.*)/)
  const service = await watchService('enclave', running)
  const program = fileURLToPath(new URL('caller.mjs', import.meta.url))
  const ask = async () => {
    const setting = { url, enclaveKey: vault.enclaveKey, keyFile: join(cwd, 'caller.key') }
    const asked = startProcess([JSON.stringify(setting)], { program })
    await asked.ended
  }
  const move = (from, to) => renameSync(join(cwd, from), join(cwd, to))
  return {
    service,
    faults: [
      {
        fault: 'two of three holders are killed',
        cause: 'holders-away',
        begin: () => Promise.all([holders[0].stop('SIGKILL'), holders[1].stop('SIGKILL')]),
        async end() {
          for (const index of [0, 1]) {
            holders[index] = startHolder(index)
            await holders[index].find('out', /HOLDER_KEY=(.*)/)
          }
        },
      },
      {
        fault: 'a holder is killed',
        cause: 'holder-away',
        begin: () => holders[2].stop('SIGKILL'),
        async end() {
          holders[2] = startHolder(2)
          await holders[2].find('out', /HOLDER_KEY=(.*)/)
        },
      },
      {
        fault: 'the directory of the vault is missing',
        cause: 'vault-unreadable',
        begin: () => move('vault', 'moved'),
        end: () => move('moved', 'vault'),
      },
      {
        fault: 'a thread is renewed while the directory of the vault is missing',
        cause: 'thread-failed',
        async begin() {
          move('vault', 'moved')
          await ask()
        },
        async end() {
          move('moved', 'vault')
          await ask()
        },
      },
      {
        fault: 'the audit log was removed',
        cause: 'audit-failing',
        async begin() {
          move('audit.log', 'audit.moved')
          await ask()
        },
        async end() {
          move('audit.moved', 'audit.log')
          await ask()
        },
      },
      {
        fault: 'the file of callers is not JSON',
        cause: 'callers-refused',
        begin: () => writeFileSync(callers, '{'),
        end: () => writeFileSync(callers, good),
      },
    ],
    async close() {
      await running.stop()
      await Promise.all(holders.map(each => each.stop()))
      rmSync(cwd, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

export async function holderLane() {
  const vault = await startVault()
  const { cwd, run, holders, places } = vault
  const service = await watchService('holder', holders[0])
  const at = name => join(cwd, 'holder-0', name)
  const trust = readFileSync(at('holder.json'), 'utf8')
  let generation = 0
  const reshare = async () => {
    await run('vault', 'reshare', ...places)
    generation = Number(/"generation":(\d+)/.exec(readFileSync(at('manifest.json'), 'utf8'))[1])
  }
  return {
    service,
    faults: [
      {
        fault: 'the holder has not got a share yet',
        cause: 'no-manifest',
        begin: () => undefined,
        end: () => reshare(),
      },
      {
        fault: 'holder.json is not JSON',
        cause: 'files-unreadable',
        begin: () => writeFileSync(at('holder.json'), '{'),
        end: () => writeFileSync(at('holder.json'), trust),
      },
      {
        fault: 'the file of the share is missing',
        cause: 'share-missing',
        begin: () => renameSync(at(`shares/${generation}.json`), at('moved')),
        end: () => renameSync(at('moved'), at(`shares/${generation}.json`)),
      },
      {
        fault: 'the audit log of the holder was removed',
        cause: 'audit-failing',
        async begin() {
          renameSync(at('audit.jsonl'), at('audit.moved'))
          await run('vault', 'reshare', ...places).catch(() => undefined)
        },
        async end() {
          renameSync(at('audit.moved'), at('audit.jsonl'))
          await reshare()
        },
      },
      {
        fault: 'the vault was reshared without this holder',
        cause: 'share-missing',
        begin: () => run('vault', 'reshare', ...places.slice(2)),
        end: () => undefined,
        isForGood: true,
      },
    ],
    async close() {
      await Promise.all(holders.map(each => each.stop()))
      rmSync(cwd, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
