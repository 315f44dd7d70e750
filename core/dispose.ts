/// <reference lib="esnext.disposable" preserve="true" />

/** Node has it from 20.5 on. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')
