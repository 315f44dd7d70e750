import { join, resolve } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { readName } from '../name.js'

const cwd = resolve('somewhere', 'here')

describe('a name stands for a package and a folder', () => {
  test.each([
    ['my-plugin', 'my-plugin', join(cwd, 'my-plugin')],
    ['a.b_c-1', 'a.b_c-1', join(cwd, 'a.b_c-1')],
    ['./my-plugin/', 'my-plugin', join(cwd, 'my-plugin')],
    ['packages/my-plugin', 'my-plugin', join(cwd, 'packages', 'my-plugin')],
    ['../my-plugin', 'my-plugin', join(cwd, '..', 'my-plugin')],
    ['.', 'here', cwd],
    ['@acme/my-plugin', '@acme/my-plugin', join(cwd, 'my-plugin')],
    ['con-1', 'con-1', join(cwd, 'con-1')],
    ['My-Plugin', 'my-plugin', join(cwd, 'My-Plugin')],
    ['@Acme/My-Plugin', '@acme/my-plugin', join(cwd, 'My-Plugin')],
    ['a'.repeat(214), 'a'.repeat(214), join(cwd, 'a'.repeat(214))],
  ])('%s', (given, name, folder) => {
    expect(readName(given, cwd)).toEqual({ name, folder })
  })
})

test.each([
  ['', 'name must not be empty'],
  ['my plugin', 'name must have no characters but'],
  ['my-plugin ', 'name must have no characters but'],
  ['a:b', 'name must have no characters but'],
  ['a~b', 'name must have no characters but'],
  ['plügin', 'name must have no characters but'],
  ['.plugin', 'name must begin with a letter or a digit: ".plugin"'],
  ['_plugin', 'name must begin with a letter or a digit'],
  ['-plugin', 'name must begin with a letter or a digit'],
  ['@acme/_plugin', 'name must begin with a letter or a digit'],
  ['plugin.', 'name must not end with a dot'],
  ['con', 'name must not be the name of a device of Windows: "con"'],
  ['nul.js', 'name must not be the name of a device of Windows'],
  ['packages/aux', 'name must not be the name of a device of Windows'],
  ['@acme/com1', 'name must not be the name of a device of Windows'],
  ['@prn/plugin', 'name must not be the name of a device of Windows'],
  ['node_modules', 'name must not be a name that npm keeps'],
  ['favicon.ico', 'name must not be a name that npm keeps'],
  ['stream', 'name must not be the name of a module of Node'],
  ['sluice', 'name must not be that of a package which the project needs'],
  ['@sluice/engine', 'name must not be that of a package which the project needs'],
  ['a'.repeat(215), 'name must have at most 214 characters'],
])('%j: %s', (given, message) => {
  expect(() => readName(given, cwd)).toThrow(message)
})
