// Looks at the stack of an error of the installed package: without source maps it names a file that one can read, with them
// the line of the source.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root, run } from './steps.mjs'

const loads = { cjs: "require('sluice')", esm: "await import('sluice')" }

/** The frames of the package in the stack of an error: function, file within the package, and line. */
async function findFrames(node, folder, format, flags) {
  const program = `const { createClient } = ${loads[format]}
try { createClient({ apiKey: '' }) } catch (error) { console.log(error.stack) }`
  const type = format === 'cjs' ? 'commonjs' : 'module'
  const args = [...flags, `--input-type=${type}`, '-e', program]
  const { stdout } = await run(node.path, args, { cwd: folder, timeout: 30_000 })
  const frames = stdout.matchAll(
    /at (?:Object\.)?(\w+) \(.*\/node_modules\/sluice\/(.+):(\d+):\d+\)$/gm,
  )
  return [...frames].map(([, name, file, line]) => ({ name, file, line: Number(line) }))
}

/** Each frame is at the line where the one above it was called, the first where the error is made. */
async function checkMapped(node, folder, format) {
  const frames = await findFrames(node, folder, format, ['--enable-source-maps'])
  for (const [index, { file, line }] of frames.entries()) {
    const source = readFileSync(join(root, file), 'utf8').split('\n')[line - 1]
    const expected = index === 0 ? 'throw new ValidationError' : `${frames[index - 1].name}(`
    // `readOptions` calls the rules of a schema.
    const isCalled = source.includes(expected) || (index > 0 && source.includes('rule('))
    assert.ok(isCalled, `${file}:${line} has no ${expected}: ${source}`)
  }
  assert.ok(frames.length > 3, `the stack has ${frames.length} frames of sources`)
  assert.equal(frames[0].file, 'dist/src/core/options.ts')
}

async function checkUnmapped(node, folder, format) {
  const frames = await findFrames(node, folder, format, [])
  assert.ok(frames.length > 3, `the stack has ${frames.length} frames`)
  assert.equal(frames[0].file, `dist/${format}/shared/report.js`)
}

/** The checks; `folder` is where the package is installed. */
export function stackChecks(folder, node, checkGated) {
  return Object.keys(loads).map(format =>
    checkGated(`Node ${node.version}: stacks name files and sources, ${format}`, async () => {
      await checkUnmapped(node, folder, format)
      await checkMapped(node, folder, format)
    }),
  )
}
