/** The platform's WebCrypto; undefined where it has none, as in a page that came over http:. */
export async function loadWebCrypto(): Promise<unknown> {
  return globalThis.crypto?.subtle === undefined ? undefined : globalThis.crypto
}
