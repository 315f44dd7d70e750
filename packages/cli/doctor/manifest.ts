import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** What is read of a package.json. */
export interface Manifest {
  readonly name?: string
  readonly version?: string
  readonly engines?: { readonly node?: string }
  readonly peerDependencies?: Readonly<Record<string, string>>
}

/** Reads the package.json of a folder. */
export function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
}

/** The folder of this package, from a path in it. */
export function findPackage(path: string): string {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json')) && readManifest(folder).name === 'sluice')
      return folder
    if (folder === dirname(folder)) throw new Error(`${path} is in no folder of this package`)
  }
}

/** The version of a package as this one finds it; undefined where it is not installed. */
export function findVersion(folder: string, name: string): string | undefined {
  const places = createRequire(join(folder, 'package.json')).resolve.paths(name) ?? []
  const place = places.find(each => existsSync(join(each, name, 'package.json')))
  return place && readManifest(join(place, name)).version
}
