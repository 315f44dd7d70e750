import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { findPromtool, noPromtool } from '@sluice/test-support/promtool.js'

const folder = join(__dirname, '../../containers')
const promtool = findPromtool()
const withPromtool = promtool === undefined ? test.skip : test
if (promtool === undefined) console.warn(`the alerts in Prometheus: ${noPromtool}`)

/** Runs promtool, and returns what it says. Fails if promtool does. */
function run(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(promtool as string, args, { encoding: 'utf8' })
  expect([status, stderr]).toEqual([0, ''])
  return stdout
}

withPromtool('Prometheus accepts the alerts, and the configuration that loads them', () => {
  const said = run('check', 'config', join(folder, 'prometheus.yml'))
  expect(said).toContain('1 rule files found')
  expect(Number(/SUCCESS: (\d+) rules found/.exec(said)?.[1])).toBeGreaterThan(15)
})

withPromtool('each alert fires when its time has come, not at a blip, and is over', () => {
  expect(run('test', 'rules', join(__dirname, 'alerts.test.yml'))).toContain('SUCCESS')
})
