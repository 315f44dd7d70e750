/** The platform's WebCrypto; undefined where it has none. */
export async function loadWebCrypto(): Promise<unknown> {
  // Up to 1.7.0: early releases of Node 20 and 22 load the ES module of later releases as CommonJS.
  const { Crypto } = await import('@peculiar/webcrypto')
  return new Crypto()
}
