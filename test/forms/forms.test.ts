// Both forms of the built package in one process, an ES module beside CommonJS: they share what they make.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'
import {
  APIError,
  DataStreamsError,
  ReportVerificationError,
  ValidationError,
} from '../../index.js'

test('an ES app with a CommonJS preset, and the other way round, has verified reports and knows the errors', async () => {
  const program = join(__dirname, 'program.mjs')
  const { stdout } = await promisify(execFile)(process.execPath, [program])
  const right = {
    request: [true, 'resolves', 'V3'],
    live: [true, true, 'live'],
    report: [['Report'], ['Report']],
    stream: [true, true],
    error: ['unknown-signer', true, true],
    errors: [
      ['DataStreamsError', 'ReportVerificationError'],
      ['DataStreamsError', 'ReportVerificationError'],
    ],
    mixed: 'V3',
    place: expect.stringMatching(/^dedup must stand below continuity/),
  }
  expect(JSON.parse(stdout)).toEqual([right, right])
})

test('errors of other classes are told from ours, whatever their name', () => {
  class Foreign extends Error {}
  Foreign.prototype.name = 'APIError'
  class Mine extends DataStreamsError {}
  expect(new Foreign('x')).not.toBeInstanceOf(APIError)
  expect(new Mine('x')).toBeInstanceOf(DataStreamsError)
  expect(new Mine('x')).not.toBeInstanceOf(ValidationError)
  expect(new DataStreamsError('x')).not.toBeInstanceOf(Mine)
  expect(new ReportVerificationError('x', { reason: 'expired' })).not.toBeInstanceOf(APIError)
  for (const value of [undefined, null, 'x', {}, Object.create(null)])
    expect(value instanceof DataStreamsError).toBe(false)
})
