// QuickJS, compiled to WebAssembly. It is the engine of CRE's workflows, and has nothing but the language.
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { getQuickJS } from 'quickjs-emscripten'

const program = fileURLToPath(new URL('../platform/quickjs-program.ts', import.meta.url))

/** The program and all that it imports from the built packages, in one file, as a bundler of workflows makes it. */
export async function bundleProgram(platform = 'browser') {
  const { outputFiles } = await build({
    entryPoints: [program],
    bundle: true,
    write: false,
    format: 'esm',
    platform,
    target: 'es2022',
    // The paths of the tests lead to the sources.
    tsconfigRaw: '{}',
    logLevel: 'silent',
  })
  return outputFiles[0].text
}

/** A call as JSON. */
export const writeCall = call =>
  JSON.stringify(call, (_key, each) => (typeof each === 'bigint' ? { bigint: `${each}` } : each))

/** Starts a context of QuickJS. It evaluates `globals`, then the bundled program. */
export async function startQuickJS(code, globals = '') {
  const context = (await getQuickJS()).newContext()
  const evaluate = text => context.unwrapResult(context.evalCode(text)).consume(context.dump)
  evaluate(`${globals}; undefined`)
  context
    .unwrapResult(context.evalCode(code, 'program.js', { type: 'module' }))
    .consume(exports => context.setProp(context.global, 'program', exports))
  return {
    evaluate,
    run(call) {
      const given = JSON.stringify(writeCall(call))
      evaluate(`answer = undefined; program.run(${given}).then(it => { answer = it }); undefined`)
      context.unwrapResult(context.runtime.executePendingJobs())
      const answer = evaluate('answer')
      if (answer === undefined) throw new Error(`${call[0]} waits for more than promises`)
      return JSON.parse(answer)
    },
    end: () => context.dispose(),
  }
}
