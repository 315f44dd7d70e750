/** The platform's WebCrypto; undefined if the platform lacks it. */
export async function loadWebCrypto(): Promise<unknown> {
  // At most 1.7.0: early releases of Node 20 and 22 load the ES module of later ones as CommonJS.
  const { Crypto } = await import('@peculiar/webcrypto')
  return new Crypto()
}
