import { getPublicSuffix } from 'tldts'

/**
 * Whether anybody can have a host below this name, by the public suffix list: registries (`co.uk`) and those who give names to
 * their customers (`github.io`). So is a name whose every child is one (`kobe.jp`), and an address, which has no hosts below it.
 */
export function isPublicSuffix(name: string): boolean {
  const suffixOf = (host: string): string | null =>
    getPublicSuffix(host, { allowPrivateDomains: true, validateHostname: false })
  const suffix = suffixOf(name)
  const child = `any-name.${name}`
  return suffix === null || suffix === name || suffixOf(child) === child
}
