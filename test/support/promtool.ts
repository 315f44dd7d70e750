import { spawnSync } from 'node:child_process'

/** What to say where there is no promtool. */
export const noPromtool =
  'skipped: there is no promtool on the path, and none could be installed. Install prometheus, or set PROMTOOL to its path'

const starts = (path: string): boolean => spawnSync(path, ['--version']).status === 0

/** For root on Debian and its like: installs Prometheus, which promtool is a part of. */
function install(): void {
  if (process.getuid?.() !== 0) return
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = (...args: readonly string[]): boolean =>
    spawnSync('apt-get', ['-q', ...args], { stdio: 'ignore', env }).status === 0
  const add = (): boolean => apt('install', '-y', '--no-install-recommends', 'prometheus')
  if (!add() && apt('update')) add()
}

/**
 * The path of a promtool, which checks and tests the rules of Prometheus: that of the environment,
 * the one on the path, or one that is installed now. Undefined where none can be had.
 */
export function findPromtool(): string | undefined {
  const { PROMTOOL = 'promtool' } = process.env
  if (starts(PROMTOOL)) return PROMTOOL
  install()
  return starts('promtool') ? 'promtool' : undefined
}
