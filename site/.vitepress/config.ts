// The site: the pages of docs/ as they are, in the order of `sections`, with the reference of all exports.
import { readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type DefaultTheme, defineConfig } from 'vitepress'
import { anchorOf } from '../anchors'
import { type Section, sections } from '../sections'
import { writeForModels } from '../texts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (path: string): string => readFileSync(`${root}/${path}`, 'utf8')
const { version, repository } = JSON.parse(read('package.json'))
const source = `${repository.url.replace(/^git\+|\.git$/g, '')}/blob/main`

/** The first heading of a page. */
const titleOf = (page: string): string =>
  /^# (.+)$/m.exec(read(`docs/${page}.md`))?.[1]?.replaceAll('`', '') ?? page

function sidebarOf({ title, folder, pages, isClosed = false }: Section): DefaultTheme.SidebarItem {
  const items = pages.map(name => {
    const page = posix.join(folder, name)
    return { text: titleOf(page).replace(/: .*/, ''), link: `/${page}` }
  })
  return { text: title, collapsed: isClosed, items }
}

/** A component of the default theme, the text that is wrong there, and the right one. */
type Correction = readonly [file: string, wrong: RegExp, right: string]

/** Corrections of what the default theme tells assistive technology. */
const corrections: readonly Correction[] = [
  // The heading of a section that opens and closes is a button: it says whether it is open, and has no second button inside.
  [
    'VPSidebarItem.vue',
    /role="button"\s+aria-label="toggle section"([^>]*)tabindex="0"/,
    'aria-hidden="true"$1',
  ],
  [
    'VPSidebarItem.vue',
    /:role="itemRole"/,
    '$& :aria-expanded="collapsible ? !collapsed : undefined"',
  ],
  ['VPHome.vue', /<div(\s+class="VPHome"[\s\S]*)<\/div>(\s*<\/template>)/, '<main$1</main>$2'],
]

const corrected = {
  name: 'corrected-theme',
  enforce: 'pre',
  transform(code: string, id: string) {
    const own = corrections.filter(([file]) => id.endsWith(`/${file}`))
    if (own.length === 0) return undefined
    return own.reduce((text, [file, wrong, right]) => {
      if (!wrong.test(text)) throw new Error(`${file} of this VitePress has no ${wrong}`)
      return text.replace(wrong, right)
    }, code)
  },
} as const

/** A gate over water. */
const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" fill="none" stroke="#1a56a8" stroke-width="2">
  <path d="M3 1v13M13 1v13M3 4h10M6 4v5M10 4v5M1 12q2-2 4 0t4 0 4 0 2-1"/></svg>`

/** Types that share their name with a constant that is not public: typedoc counts it, and has no heading for it. */
const hidden = /#(candleinterval|gapcause|fieldtype|metricname|metrickind)-1$/

export default defineConfig({
  title: 'sluice',
  description: 'A client for signed data reports, as a pipeline of small plugins',
  lang: 'en',
  base: process.env.SITE_BASE ?? '/',
  srcDir: '../docs',
  outDir: '.out',
  cacheDir: '../node_modules/.cache/vitepress',
  srcExclude: ['results/**'],
  // Without JavaScript no section opens at a click, so all are open.
  head: [
    ['noscript', {}, '<style>.VPSidebarItem.collapsed .items{display:block!important}</style>'],
    ['link', { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent(icon)}` }],
  ],
  vite: { plugins: [corrected] },
  markdown: {
    anchor: { slugify: anchorOf },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    languageAlias: { conf: 'ini', promql: 'sql' },
    config(md) {
      // Two braces are a placeholder of ours, and no expression of Vue.
      for (const rule of ['text', 'code_inline'] as const) {
        const render = md.renderer.rules[rule]
        md.renderer.rules[rule] = (...given) =>
          (render?.(...given) ?? '').replaceAll('{{', '&#123;&#123;')
      }
      // An indented block is a block of code, too.
      const { fence } = md.renderer.rules
      if (fence !== undefined) md.renderer.rules.code_block = fence
      // The empty cell in the corner of a table is not a heading.
      md.core.ruler.push('empty-headings', ({ tokens }) => {
        for (const [index, token] of tokens.entries())
          if (token.tag === 'th' && tokens[index + (token.nesting > 0 ? 1 : -1)]?.content === '')
            token.tag = 'td'
      })
      // A link out of docs/ leads to the file in the repository.
      md.core.ruler.push('repository-links', ({ tokens, env }) => {
        const folder = posix.join('docs', posix.dirname(env.relativePath ?? ''))
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const href = token.attrGet('href')
          if (href === null || /^([a-z]+:|\/)/.test(href)) continue
          const path = posix.join(folder, href)
          if (hidden.test(href)) token.attrSet('href', href.replace(hidden, '#$1'))
          if (href.startsWith('#')) continue
          const isPage = path.startsWith('docs/') && /\.md(#|$)/.test(path)
          if (!isPage) token.attrSet('href', `${source}/${path}`)
        }
      })
    },
  },
  themeConfig: {
    nav: [
      { text: 'Start', link: '/start/first-price' },
      { text: 'Recipes', link: '/recipes/rest' },
      { text: 'Concepts', link: '/concepts/continuity' },
      { text: 'Reference', link: '/reference/command-line' },
      { text: 'Playground', link: '/playground' },
      { text: 'Troubleshooting', link: '/operate/doctor' },
      {
        text: version,
        items: [
          { text: 'Changes', link: `${source}/CHANGELOG.md` },
          { text: 'Versions and support', link: '/reference/versioning' },
        ],
      },
    ],
    sidebar: [...sections.map(sidebarOf), { text: 'All exports', link: '/reference/api/' }],
    outline: [2, 3],
    search: { provider: 'local' },
    editLink: {
      pattern: `${source.replace('/blob/', '/edit/')}/docs/:path`,
      text: 'Edit this page',
    },
    socialLinks: [{ icon: 'github', link: source.replace('/blob/main', '') }],
  },
  buildEnd: ({ outDir }) => writeForModels({ docs: `${root}/docs`, outDir }),
})
