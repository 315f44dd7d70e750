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
const feed = `0x0003${'5a'.repeat(30)}`

test.each([
  ['latests', 'Did you mean latest?'],
  ['frobnicate', "unknown command 'frobnicate': --help lists all"],
  ['-o json latest', "unknown option '-o': --help lists all"],
  [`latest ${feed} --frobnicate`, "unknown option '--frobnicate': --help lists all"],
  ['latest ETH/USD,BTC/USD --mainnet', 'a single one: bulk and stream take several'],
  ['latest 0x123', 'feedID must be 0x and 64 hexadecimal digits, not "0x123"'],
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
  ['completion', "missing required argument 'shell'"],
])('sluice %s', async (args, message) => {
  const env = { API_KEY: 'a', USER_SECRET: 'b', REST_URL: 'http://127.0.0.1:6553' }
  const { out, err, code } = await runHere(args.split(' '), { env, input: '' })
  expect(err).toContain(message)
  expect(err).toMatch(/^sluice: [^\n]*\n$/)
  expect([out, code]).toEqual(['', 2])
})
