// Changes a vault at random, and prints what it begins and what is acknowledged, until it is killed.
const [, , library, directory, round] = process.argv
const { openVault } = require(library)

const say = line => require('node:fs').writeSync(1, `${JSON.stringify(line)}\n`)
const pick = list => list[Math.floor(Math.random() * list.length)]

async function run() {
  const vault = await openVault(directory)
  say({ open: true })
  for (let count = 0; ; count++) {
    const key = pick(['a', 'b', 'c'])
    const value = `${round} ${count}`
    const kind = pick(['put', 'put', 'put', 'rm', 'reshare', 'rotate'])
    say({ begin: kind, key, value })
    try {
      if (kind === 'put') await vault.put({ key }, value, { policy: 'anywhere' })
      else if (kind === 'rm') await vault.remove({ key })
      else if (kind === 'reshare') await vault.reshare({ holders: pick([2, 3, 4]), threshold: 2 })
      else await vault.rotate()
      say({ done: kind, key, value })
    } catch (error) {
      if (!/^key does not exist/.test(error.message)) throw error
      say({ done: 'nothing' })
    }
  }
}

run().catch(error => {
  say({ failed: String(error.stack) })
  process.exitCode = 1
})
