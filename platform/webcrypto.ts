import { nativeCrypto } from './native-crypto.js'

/** The WebCrypto of @peculiar/webcrypto, or the platform's own where that can't be loaded. */
export async function loadWebCrypto(): Promise<unknown> {
  try {
    const { Crypto } = await import('@peculiar/webcrypto')
    return new Crypto()
  } catch {
    // Early releases of Node 20 and 22 load its ES module as CommonJS, from 1.7.1 on.
    return nativeCrypto
  }
}
