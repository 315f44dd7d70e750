// Runs benchmarks against the built package: npm run bench, or npm run bench -- NAME for one of them.
import { readdirSync } from 'node:fs'
import { cpus, platform } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
const names = readdirSync(here)
  .filter(file => file.endsWith('.bench.mjs'))
  .map(file => file.slice(0, -'.bench.mjs'.length))
const [wanted] = process.argv.slice(2)
if (wanted !== undefined && !names.includes(wanted)) {
  console.error(`usage: npm run bench [-- NAME], where NAME is one of: ${names.join(', ')}`)
  process.exit(2)
}
const cores = cpus()
console.log(
  `${cores.length} × ${cores[0]?.model ?? 'unknown processor'}, ${platform()}, Node ${process.version}`,
)
for (const name of wanted === undefined ? names : [wanted]) {
  const { default: bench } = await import(pathToFileURL(join(here, `${name}.bench.mjs`)).href)
  console.log(`\n${name}`)
  await bench()
}
