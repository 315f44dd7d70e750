// The pages as text, for models and for search by hand: llms.txt lists them, llms-full.txt has them all in one file.
import { readFileSync, writeFileSync } from 'node:fs'
import { sections } from './sections'

interface Given {
  readonly docs: string
  readonly outDir: string
  /** Paths of the pages, such as `guides/streams.md`. */
  readonly pages: readonly string[]
}

export function writeForModels({ docs, outDir, pages }: Given): void {
  const ours = sections.flatMap(({ folder, pages }) =>
    pages.map(name => (folder === '' ? `${name}.md` : `${folder}/${name}.md`)),
  )
  const missing = pages.filter(
    page => !ours.includes(page) && !/^(index|reference\/api\/)/.test(page),
  )
  if (missing.length > 0) throw new Error(`no section of site/sections.ts has ${missing}`)
  const texts = ours.map(page => ({ page, text: readFileSync(`${docs}/${page}`, 'utf8') }))
  const lines = texts.map(({ page, text }) => {
    const [title = page, about = ''] = text.replace(/^# /, '').split(/\n\n/)
    return `- [${title}](${page.replace(/md$/, 'html')}): ${about.replace(/\s+/g, ' ')}`
  })
  const head = '# sluice\n\n> A client for signed data reports, as a pipeline of small plugins.\n\n'
  writeFileSync(`${outDir}/llms.txt`, `${head}## Pages\n\n${lines.join('\n')}\n`)
  const whole = texts.map(({ page, text }) => `<!-- ${page} -->\n\n${text}`)
  writeFileSync(`${outDir}/llms-full.txt`, whole.join('\n'))
}
