/**
 * Loads the platform's WebCrypto. Undefined if the platform lacks it, for example in a page over
 * http:.
 */
export async function loadWebCrypto(): Promise<unknown> {
  return globalThis.crypto?.subtle === undefined ? undefined : globalThis.crypto
}
