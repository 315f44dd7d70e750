// Gives a handler written for the real SDK of workflows our runtimes: its types are checked, and it runs. The SDK is large and of
// another licence, so it is installed here alone, in a temporary folder.
import assert from 'node:assert/strict'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { check, install, root, run, runScript } from './steps.mjs'

const SDK = '@chainlink/cre-sdk@1.21.1'
const consumer = join(root, 'test', 'package', 'consumer')

/** Has a vault and an external server, and gives the bundled handler both. */
const host = `
  import { fork } from 'node:child_process'
  import { createVault } from '@sluice/confidential-http/vault'
import { startHTTPSServer } from '@sluice/engine'
  const vault = await createVault('vault')
  await vault.put({ key: 'apiKey' }, 'the-value', { policy: 'anywhere' })
  const server = await startHTTPSServer({ async handler(request, response) {
    let body = ''
    for await (const chunk of request) body += chunk
    response.end(body + ' and ' + request.headers.authorization)
  } })
  const child = fork('bundle.mjs', [vault.directory, JSON.stringify({ url: server.url, ca: server.ca })])
  child.on('exit', code => process.exit(code))
`
const start = `
  import { run } from './workflow'
  run(process.argv[2] ?? '', JSON.parse(process.argv[3] ?? ''))
`
const compilerOptions = {
  target: 'es2022',
  lib: ['es2023', 'esnext.disposable', 'dom'],
  types: ['node'],
  module: 'esnext',
  moduleResolution: 'bundler',
  strict: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: true,
  noEmit: true,
}

const expected = [
  /^it is \d{4}-.*Z$/m,
  /^key=the-value and Bearer the-value true \d+ x 7$/m,
  /^Capability 'http-actions@1\.0\.0-alpha' not found: the host rejected the call to method 'SendRequest'/m,
  /^secret retrieval failed for absent \(namespace: main\): key does not exist/m,
  /^cannot use Runtime inside RunInNodeMode$/m,
  /^returned the default$/m,
  /^cannot use NodeRuntime outside RunInNodeMode$/m,
]

export async function checkWorkflow(packed, folder) {
  await check(`${SDK}: takes our runtimes by its types, and its handlers run on them`, async () => {
    writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
    await install(folder, ['--ignore-scripts', SDK, '@types/node@20', ...packed.tarballs])
    copyFileSync(join(consumer, 'workflow.ts'), join(folder, 'workflow.ts'))
    writeFileSync(join(folder, 'start.ts'), start)
    writeFileSync(join(folder, 'host.mjs'), host)
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ compilerOptions, files: ['start.ts'] }),
    )
    await runScript('typescript/bin/tsc', ['-p', '.', '--pretty', 'false'], { cwd: folder })
    await build({
      entryPoints: [join(folder, 'start.ts')],
      outfile: join(folder, 'bundle.mjs'),
      bundle: true,
      platform: 'node',
      format: 'esm',
      external: ['sluice', 'sluice/*', '@sluice/*'],
      logLevel: 'error',
    })
    const { stdout } = await run(process.execPath, ['host.mjs'], { cwd: folder })
    for (const line of expected) assert.match(stdout, line)
  })
}
