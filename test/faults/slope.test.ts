import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'

const program = `
import { slopeOf, formatSlope, warmUpOf } from './soak/slope.mjs'
const line = slopeOf([0, 1, 2, 3].map(x => ({ x, y: 4 * x })))
for (const minutes of [1, 4.9, 5])
  console.log(formatSlope(minutes, line))
console.log([6, 60, 90].map(warmUpOf).join(' '))
`

test('a soak below five minutes has no slope to tell, and one of an hour has its from the tenth on', () => {
  const args = ['--input-type=module', '--eval', program]
  const { stdout } = spawnSync(process.execPath, args, { cwd: join(__dirname), encoding: 'utf8' })
  expect(stdout.trim().split('\n')).toEqual([
    'too short to tell: that takes 5 minutes or more',
    'too short to tell: that takes 5 minutes or more',
    '4.00 ± 0.00 MB/h',
    '1 10 10',
  ])
})
