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

/** The folder of one of our packages, as this one finds it. */
export function findPackage(name: string): string {
  return dirname(createRequire(import.meta.url).resolve(`${name}/package.json`))
}

/** The version of a package as this one finds it; undefined where it is not installed. */
export function findVersion(folder: string, name: string): string | undefined {
  const places = createRequire(join(folder, 'package.json')).resolve.paths(name) ?? []
  const place = places.find(each => existsSync(join(each, name, 'package.json')))
  return place && readManifest(join(place, name)).version
}
