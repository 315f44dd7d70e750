/** Loads WebCrypto. Undefined if the platform lacks it. */
export async function loadWebCrypto(): Promise<unknown> {
  // The version must be at most 1.7.0: early releases of Node 20 and 22 load the ES module of later
  // versions as CommonJS.
  const { Crypto } = await import('@peculiar/webcrypto')
  return new Crypto()
}
