// Files as editors and shells of Windows write them.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { parseJSON, readText } from '../input/files.js'
import { readEnvFile } from '../service/service.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-text-'))
afterAll(() => rmSync(folder, { recursive: true }))

const variables = 'API_KEY=key\r\nUSER_SECRET="a secret=="\r\n'
const bigEndian = (text: string): Buffer => Buffer.from(text, 'utf16le').swap16()
const forms: readonly (readonly [string, (text: string) => Buffer])[] = [
  ['UTF-8', text => Buffer.from(text)],
  ['UTF-8 with a byte order mark', text => Buffer.from(`\ufeff${text}`)],
  ['UTF-16, as PowerShell writes it', text => Buffer.from(`\ufeff${text}`, 'utf16le')],
  ['UTF-16 in the other order', text => bigEndian(`\ufeff${text}`)],
]

describe.each(forms)('a file in %s', (name, bytesOf) => {
  const path = join(folder, `${name}.txt`)

  test('has its variables', () => {
    writeFileSync(path, bytesOf(variables))
    expect({ ...readEnvFile('--env-file', path) }).toEqual({
      API_KEY: 'key',
      USER_SECRET: 'a secret==',
    })
  })

  test('has its JSON', () => {
    writeFileSync(path, bytesOf('{"f":1}'))
    expect(parseJSON('--signers', readText('--signers', path))).toEqual({ f: 1 })
  })
})

test('a file that is no text is named', () => {
  const path = join(folder, 'bytes')
  writeFileSync(path, Buffer.from([0x41, 0xc3, 0x28, 0xff]))
  expect(() => readText('--env-file', path)).toThrow(
    `--env-file must be text in UTF-8 or UTF-16, which ${path} is not`,
  )
})

test('JSON after a byte order mark is JSON', () => {
  expect(parseJSON('--signers', '\ufeff{"f":1}')).toEqual({ f: 1 })
})
