// Packs the library and its packages into packed/, and prints a table of them: npm run pack. With --bom also a bill of
// materials: what npm installs for them, and what the build has copied into them. That needs the registry.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { copied } from './compile.mjs'
import { npm, packages } from './packages.mjs'
import { makeTarball } from './tarball.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, 'packed')

/** A package of which the build carries a copy, as a component of a bill of materials. */
function describeCopy(name) {
  const manifest = join(root, 'node_modules', name, 'package.json')
  const { version, license } = JSON.parse(readFileSync(manifest, 'utf8'))
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
  const licenses = [{ license: { id: license } }]
  return { 'bom-ref': purl, type: 'library', name, version, scope: 'required', purl, licenses }
}

/** The bill of materials of all packages, installed together as a user does. */
function listMaterials(tarballs, version) {
  const user = mkdtempSync(join(tmpdir(), 'sluice-bom-'))
  try {
    const manifest = { name: 'sluice-packages', version, private: true }
    writeFileSync(join(user, 'package.json'), JSON.stringify(manifest))
    npm(['install', '--ignore-scripts', '--no-audit', '--no-fund', ...tarballs], user)
    const bom = JSON.parse(npm(['sbom', '--sbom-format', 'cyclonedx'], user))
    // Where the tarballs lay is nobody's business.
    for (const each of bom.components)
      each.externalReferences = each.externalReferences?.filter(
        ({ url }) => !url.startsWith('file:'),
      )
    bom.components.push(...copied.map(describeCopy))
    return bom
  } finally {
    rmSync(user, { recursive: true, force: true, maxRetries: 5 })
  }
}

rmSync(folder, { recursive: true, force: true })
mkdirSync(folder)
const packed = Object.values(packages).map(place => makeTarball(place, folder))
console.log('| package | packed, bytes | unpacked, bytes | files |\n| --- | --- | --- | --- |')
for (const { id, size, unpackedSize, files } of packed)
  console.log(`| ${id} | ${size} | ${unpackedSize} | ${files.length} |`)
if (process.argv.includes('--bom')) {
  const tarballs = packed.map(({ filename }) => join(folder, filename))
  const bom = listMaterials(tarballs, packed[0].version)
  writeFileSync(join(folder, 'sluice.cdx.json'), `${JSON.stringify(bom, null, 2)}\n`)
  console.log(`\n${bom.components.length} components in sluice.cdx.json`)
}
