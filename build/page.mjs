// Builds the page of the monitor: one script and one style sheet, with the charts in them, beside its HTML.
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const source = fileURLToPath(new URL('../packages/cli/monitor/page/', import.meta.url))
const banner = '/* Its licence is in dist/THIRD-PARTY-LICENSES. */'

/** Writes the page into a folder. */
export async function buildPage(folder) {
  await build({
    entryPoints: { page: join(source, 'main.ts') },
    outdir: folder,
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    legalComments: 'none',
    banner: { js: banner },
    logLevel: 'error',
  })
  await build({
    entryPoints: [join(source, 'page.css')],
    outdir: folder,
    bundle: true,
    minify: true,
    banner: { css: banner },
    logLevel: 'error',
  })
  for (const name of ['index.html', 'icon.svg']) cpSync(join(source, name), join(folder, name))
}
