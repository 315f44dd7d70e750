import { readFileSync } from 'node:fs'

/** A file of the page. */
export interface PageFile {
  readonly type: string
  readonly body: Uint8Array
}

/** The files of the page, by their paths at the server. */
export type PageFiles = Readonly<Record<string, PageFile>>

const types = {
  'index.html': 'text/html; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
  'page.js': 'text/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
}

/** Reads the files of the page, which the build puts beside this one. */
export function readPage(folder: URL = new URL('./page/', import.meta.url)): PageFiles {
  const files = Object.entries(types).map(([name, type]) => [
    name === 'index.html' ? '/' : `/${name}`,
    { type, body: readFileSync(new URL(name, folder)) },
  ])
  return Object.assign(Object.create(null), Object.fromEntries(files)) as PageFiles
}
