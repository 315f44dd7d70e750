// The pages as text, for models and for search by hand: llms.txt lists them, llms-full.txt has them all in one file.
import { readFileSync, writeFileSync } from 'node:fs'
import { paths } from './sections'

interface Given {
  readonly docs: string
  readonly outDir: string
}

export function writeForModels({ docs, outDir }: Given): void {
  const texts = paths.map(page => ({ page, text: readFileSync(`${docs}/${page}`, 'utf8') }))
  const lines = texts.map(({ page, text }) => {
    const [title = page, about = ''] = text.replace(/^# /, '').split(/\n\n/)
    // A link of the page would not lead from here.
    const plain = about.replace(/\s+/g, ' ').replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    return `- [${title}](${page.replace(/md$/, 'html')}): ${plain}`
  })
  const head = '# sluice\n\n> A client for signed data reports, as a pipeline of small plugins.\n\n'
  writeFileSync(
    `${outDir}/llms.txt`,
    `${head}## Pages\n\n${lines.join('\n')}\n\n## All exports\n\n- [Reference](reference/api/index.html): every public export with its type and comment\n`,
  )
  const whole = texts.map(
    ({ page, text }) => `<!-- ${page} -->\n\n${text.replace(/^<PlaygroundPage \/>\n/m, '')}`,
  )
  writeFileSync(`${outDir}/llms-full.txt`, whole.join('\n'))
}
