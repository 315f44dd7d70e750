// The program of the page "Your first price", for the first page of the site.
import { readFileSync } from 'node:fs'
import { createMarkdownRenderer, type SiteConfig } from 'vitepress'

declare const data: string

export { data }

export default {
  watch: ['../../../docs/start/first-price.md'],
  async load([page]: [string]): Promise<string> {
    const { srcDir, markdown } = (
      globalThis as unknown as { readonly VITEPRESS_CONFIG: SiteConfig }
    ).VITEPRESS_CONFIG
    const program = /## With keys[\s\S]*?(```ts\n[\s\S]*?```)/.exec(readFileSync(page, 'utf8'))?.[1]
    if (program === undefined) throw new Error('the first page needs a program')
    return (await createMarkdownRenderer(srcDir, markdown)).render(program)
  },
}
