// Files planted wherever a bundle could look for a program or a module of the library, and a watch over them.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, posix } from 'node:path'

const hasStrace = spawnSync('strace', ['-o', '/dev/null', 'true']).status === 0

/** The paths, without what leads upwards, that the files of a build name or have. */
function findTails(dist) {
  const tails = new Set()
  for (const format of ['esm', 'cjs'])
    for (const file of readdirSync(join(dist, format), { recursive: true }).map(String)) {
      if (!file.endsWith('.js')) continue
      const path = file.replaceAll('\\', '/')
      tails.add(path).add(basename(path)).add(`${format}/${path}`).add(`dist/${format}/${path}`)
      const text = readFileSync(join(dist, format, file), 'utf8')
      for (const [, literal] of text.matchAll(/["'](\.{1,2}\/[^"'\s]+)["']/g))
        tails.add(posix.normalize(literal).replace(/^(\.\.\/)+/, ''))
    }
  // What earlier versions looked for.
  for (const name of ['recovery-thread.js', 'thread.js', 'recovery-thread.cjs', 'thread.mjs'])
    tails.add(name).add(`plugins/verify/${name}`)
  return tails
}

/**
 * Plants them in each folder from `place` up to `top`, where nothing lies yet. `wrap` says how a program is started under the watch;
 * `findOpened` tells, when it has ended, of each that was opened.
 */
export function plant(dist, top, place) {
  const told = join(top, 'told.txt')
  const seen = join(top, 'seen.txt')
  const planted = new Set()
  for (let folder = place; ; folder = dirname(folder)) {
    for (const tail of findTails(dist)) {
      const path = join(folder, tail)
      if (existsSync(path)) continue
      mkdirSync(dirname(path), { recursive: true })
      // It runs as an ES module, as CommonJS and as a thread.
      writeFileSync(
        path,
        `import('node:fs').then(fs => fs.appendFileSync(${JSON.stringify(told)}, ${JSON.stringify(`${path}\n`)}))\n`,
      )
      planted.add(path)
    }
    if (folder === top) break
  }
  // Without strace a loader notes what is imported; what is required tells of itself.
  const loader = join(top, 'watch-loader.mjs')
  const watch = join(top, 'watch.mjs')
  writeFileSync(
    loader,
    `import { appendFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
export function load(url, context, next) {
  if (url.startsWith('file:')) appendFileSync(${JSON.stringify(seen)}, fileURLToPath(url) + '\\n')
  return next(url, context)
}
`,
  )
  writeFileSync(
    watch,
    `import { register } from 'node:module'\nregister('./watch-loader.mjs', import.meta.url)\n`,
  )

  return {
    wrap: () =>
      hasStrace
        ? {
            command: 'strace',
            args: [
              '-f',
              '-qq',
              '-e',
              'trace=open,openat,execve',
              '-s',
              '1000',
              '-o',
              seen,
              process.execPath,
            ],
          }
        : { args: ['--import', watch] },
    findOpened(main) {
      const log = existsSync(seen) ? readFileSync(seen, 'utf8') : ''
      const opened = new Set(log.match(hasStrace ? /(?<=")[^"]+\.[mc]?js(?=")/g : /.+/g))
      if (!opened.has(main)) return [`the watch has not even seen ${basename(main)}`]
      // Wherever else: a bundle may have the place where it was made.
      const strange = [...opened].filter(path => planted.has(path) || !path.startsWith(place))
      const ran = existsSync(told) ? readFileSync(told, 'utf8').split('\n').filter(Boolean) : []
      return [...new Set([...strange, ...ran])].map(
        path => `it has opened ${path.replace(`${top}/`, '')}, which is not its own`,
      )
    },
  }
}
