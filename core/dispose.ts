/// <reference lib="esnext.disposable" preserve="true" />

/** `Symbol.asyncDispose`, which Node lacks before 20.5. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')
