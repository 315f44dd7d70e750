import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { runHere } from './support/cli.js'

// What a person types by mistake: one line says what to do, and the exit code is 2.

const folder = mkdtempSync(join(tmpdir(), 'sluice-mistakes-'))
afterAll(() => rmSync(folder, { recursive: true }))
const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
const json = file('other.json', '{"a":1}')
const broken = file('broken.json', '[1,2')
const empty = file('empty.ndjson', '')
const oneSigner = file('signer.json', '{"signers":[1],"f":1}')
const feed = `0x0003${'5a'.repeat(30)}`

/** Files and folders that only Linux has. */
const linux: readonly (readonly [string, string])[] = [
  [`record ${feed} --dir /proc/none/dir`, '--dir can’t be written to /proc/none/dir: ENOENT'],
  [`record ${feed} --dir /proc/self`, '--dir can’t be written to /proc/self: ENOENT'],
  [`certify ${feed} --out /proc/none`, '--out can’t be written to /proc/none: ENOENT'],
  ['vault init --vault /proc/none', 'can’t be written to /proc/none: ENOENT'],
]

test.each<readonly [string, string]>([
  ['latests', 'Did you mean latest?'],
  ['frobnicate', "unknown command 'frobnicate': --help lists all"],
  ['-o json latest', "unknown option '-o': --help lists all"],
  [`latest ${feed} --frobnicate`, "unknown option '--frobnicate': --help lists all"],
  ['latest ETH/USD,BTC/USD --mainnet', 'a single one: bulk and stream take several'],
  ['latest 0x123', 'the feed must be 0x and 64 hexadecimal digits, not "0x123"'],
  [`latest ${feed} --timeout 5`, 'must be a time such as 90s'],
  [`latest ${feed} -o json --csv`, "'-o, --output <format>' cannot be used with option '--csv'"],
  [`latest ${feed} --env-file ${folder}`, 'EISDIR, it is a folder'],
  [`latest ${feed} --ca none.pem`, 'ENOENT, there is no such file or folder'],
  [`latest ${feed} --ca ${json}`, `--ca must be a file in PEM: ${json} has no line`],
  [`latest ${feed} --cert ${json}`, `--cert must be a file in PEM: ${json} has no line`],
  [`latest ${feed} --proxy nonsense`, 'proxy must be a URL such as'],
  [`latest ${feed} --endpoint ftp://x`, 'endpoint must begin with https:// or http://'],
  ['page ETH/USD', "required option '--from <time>' not specified"],
  [`page ${feed} --from 5w`, 'or how long ago: 90s, 15m, 2h, 1d'],
  [`page ${feed} --from 5m --limit 1.5`, 'must be a whole number from 1 to 1000000'],
  [`history ${feed} --from 1h --to 2h`, '--to must not be before --from'],
  [`history ${feed} --from 2099-01-01`, '--from must not be in the future'],
  [`history ${feed} --from 1h --out x`, '--out needs --json, --csv or --parquet'],
  [`history ${feed} --from 1h --out x -o table`, '--out needs --json, --csv or --parquet'],
  [`history ${feed} --from 1h --out /none/x --json`, 'ENOENT, there is no such file or folder'],
  [`history ${feed} --from 1h --resume`, '--resume needs --out'],
  [`history ${feed} --from 1h --out x --parquet --json`, "'--parquet' cannot be used with"],
  [`bulk ${feed} --at tomorrow`, 'or how long ago'],
  ['decode none.json', 'ENOENT, there is no such file or folder'],
  [`decode ${json}`, 'must have a fullReport'],
  [`decode ${broken}`, 'must be hexadecimal digits or JSON'],
  ['gaps', 'files, or --feed and --from, must be given'],
  [`sink ${feed} --to postgres://me:secret@host/prices`, '--to must have no password'],
  [`sink ${feed} --to postgres://me@host/prices?password=secret`, '--to must have no password'],
  [`sink ${feed} --to kafka://host:9092/prices --cursors ${broken}`, 'remove that file, or name'],
  [`sink ${feed} --to kafka://host:9092/prices`, '--cursors must be given'],
  [`sink ${feed} --to mysql://host/prices`, '--to must be duckdb:FILE, parquet:DIR'],
  [`gaps ${broken}`, 'must be hexadecimal digits or JSON'],
  ['verify 0x00', '--signers or --onchain must be given'],
  [`verify 0x00 --signers ${broken}`, `--signers ${broken} must be JSON`],
  ['verify 0x00 --signers none.json', 'ENOENT, there is no such file or folder'],
  ['verify 0x00 --signers 0x12 --f 20', 'must be a whole number from 1 to 10'],
  [`verify 0x00 --signers ${json} --onchain http://x`, "'--onchain <url>' cannot be used with"],
  [`stream ${feed} -n 0`, 'must be a whole number from 1'],
  [`stream ${feed} -o table=x`, 'must be json, csv, table, lines or template=TEXT'],
  [`stream ${feed} --cursors /none/c.json`, 'ENOENT, there is no such file or folder'],
  [`record ${feed} --dir ${json}`, `--dir can’t be written to ${json}: EEXIST, there is another`],
  [`replay ${json}`, 'must have a fullReport'],
  [`gaps ${empty}`, 'empty.ndjson: no report in there'],
  [`page ${feed} --from 2026-02-30`, 'month 02 of 2026 has 28 days'],
  [`record ${feed} --dir ${folder}/r --from 2099-01-01`, '--from must not be in the future'],
  [`stream ${feed} --cursors ${broken}`, 'remove that file, or name another'],
  [`serve --port 0 --env-out ${json}`, 'has other contents: name another file'],
  ['serve --host 203.0.113.1', 'this machine has no such address'],
  ['enclave --key x --caller y --metrics 203.0.113.1:1', 'this machine has no such address'],
  ['serve --port 99999', 'must be a whole number from 0 to 65535'],
  [`keygen ${json}`, 'a key is never overwritten: name another file'],
  ['vault lst', 'Did you mean list?'],
  [`page ${feed} --form 5m`, "unknown option '--form' (Did you mean --from?)"],
  [`record ${feed} --dri x`, "unknown option '--dri' (Did you mean --dir?)"],
  [`latest ${feed} --json --csv --rwa`, "unknown option '--rwa' (Did you mean --raw?)"],
  [`latest ${feed} --endpoint nonsense`, '--endpoint must be a URL'],
  [`stream ${feed} --ws-endpoint ws://a,b`, '--ws-endpoint, URL 2, must be a URL'],
  [`stream ${feed} --proxy nonsense`, '--proxy must be a URL'],
  [`page ${feed} --from 2099-01-01`, '--from must not be in the future: 2099-01-01T00:00:00Z is'],
  [`bulk ${feed} --at 2099-01-01`, '--at must not be in the future'],
  [`gaps --feed ${feed} --from 2099-01-01`, '--from must not be in the future'],
  [`gaps --feed ${feed} --from 1h --to 2h`, '--to must not be before --from'],
  [`replay ${empty} --port 0 --exit`, 'empty.ndjson: no report in there, so nothing to publish'],
  [`serve --replay ${empty} --port 0`, 'empty.ndjson: no report in there, so nothing to publish'],
  ['serve --feeds ETHX/USD --port 0', '"ETHX/USD" is no feed: it must be 0x and'],
  ['decode 0x00 ETH/USX', '"ETH/USX" is no feed: it must be 0x and'],
  ['verify 0x00 --signers 0x12 --f 1', '--signers must be 0x and 40 hexadecimal digits'],
  [`verify 0x00 --signers ${oneSigner}`, `--signers ${oneSigner}: signers[0] must be a string`],
  [`vault list --vault ${folder}`, 'it has no vault.json; sluice vault init makes one'],
  [`vault rotate --key none.key --vault ${folder}`, '--key can’t be read from none.key: ENOENT'],
  [`vault holder --dir ${folder}/h --writer xx`, '--writer must be 64 lower-case'],
  ['keygen /none/enclave.key', 'the file can’t be written to /none/enclave.key: ENOENT'],
  [`audit verify ${folder}`, 'EISDIR, it is a folder'],
  [`audit verify ${empty} --state ${json}`, 'is not a file that sluice audit verify has written'],
  ['completion', "missing required argument 'shell'"],
  ...(process.platform === 'linux' ? linux : []),
])('sluice %s', async (args, message) => {
  const env = { API_KEY: 'a', USER_SECRET: 'b', REST_URL: 'http://127.0.0.1:6553' }
  const { out, err, code } = await runHere(args.split(' '), { env, input: '' })
  expect(err).toContain(message)
  expect(err).toMatch(/^sluice: [^\n]*\n$/)
  expect([out, code]).toEqual(['', 2])
})

test.each([
  ['REST_URL', `latest ${feed}`],
  ['WS_URL', `stream ${feed}`],
])('a wrong %s is named as the variable that it is', async (name, args) => {
  const env = { API_KEY: 'a', USER_SECRET: 'b', [name]: 'nonsense' }
  const { err, code } = await runHere(args.split(' '), { env })
  expect([err, code]).toEqual([`sluice: ${name} must be a URL\n`, 2])
})

test('a wrong URL of a context is named with the context', async () => {
  const env = { API_KEY: 'a', USER_SECRET: 'b', XDG_CONFIG_HOME: folder }
  const path = file('of-context.env', 'REST_URL=nonsense\n')
  expect(await runHere(['context', 'add', 'prod', '--env-file', path], { env })).toMatchObject({
    code: 0,
  })
  const { err, code } = await runHere(['latest', feed, '--context', 'prod'], { env })
  expect([err, code]).toEqual([
    'sluice: REST_URL, or --endpoint, of context prod must be a URL\n',
    2,
  ])
})
