// Compiles verifier.sol: `node test/support/ethereum/compile.mjs` writes verifier.json. It takes seconds, so tests read that.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import solc from 'solc'

const read = name => readFileSync(new URL(name, import.meta.url), 'utf8')

/** The bytecode of each contract, and the compiler. */
export function compile() {
  const input = {
    language: 'Solidity',
    sources: { 'verifier.sol': { content: read('verifier.sol') } },
    settings: {
      evmVersion: 'shanghai',
      optimizer: { enabled: true, runs: 200 },
      metadata: { bytecodeHash: 'none', appendCBOR: false },
      outputSelection: { '*': { '*': ['evm.bytecode.object'] } },
    },
  }
  const { errors, contracts } = JSON.parse(solc.compile(JSON.stringify(input)))
  if (errors !== undefined) throw new Error(errors.map(each => each.formattedMessage).join('\n'))
  const bytecode = Object.entries(contracts['verifier.sol']).map(([name, { evm }]) => [
    name,
    `0x${evm.bytecode.object}`,
  ])
  return { compiler: solc.version(), ...Object.fromEntries(bytecode) }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = `${JSON.stringify(compile(), null, 2)}\n`
  if (process.argv.includes('--check')) process.exitCode = text === read('verifier.json') ? 0 : 1
  else writeFileSync(new URL('./verifier.json', import.meta.url), text)
}
