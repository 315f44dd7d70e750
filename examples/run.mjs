// Runs an example: node examples/run.mjs NAME. TypeScript is compiled on the way; `sluice` is the built package itself.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { transformSync } from 'esbuild'

const here = dirname(fileURLToPath(import.meta.url))
const name = process.argv[2] ?? ''
if (!existsSync(join(here, `${name}.ts`))) {
  const names = readdirSync(here)
    .filter(file => file.endsWith('.ts'))
    .map(file => file.slice(0, -3))
  console.error(`usage: npm run example -- NAME, where NAME is one of: ${names.join(', ')}`)
  process.exit(2)
}
const out = join(here, '.out')
mkdirSync(out, { recursive: true })
const { code } = transformSync(readFileSync(join(here, `${name}.ts`), 'utf8'), {
  loader: 'ts',
  format: 'esm',
  target: 'node20',
})
writeFileSync(join(out, `${name}.mjs`), code)
process.exitCode =
  spawnSync(process.execPath, [join(out, `${name}.mjs`)], { stdio: 'inherit' }).status ?? 1
