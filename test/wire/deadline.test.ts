import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { pathToFileURL } from 'node:url'
import { afterAll, expect, test } from '@jest/globals'
import { built } from '../support/files.js'

/** Each request gets a head and a first byte. Garbage is collected; then its time is over. */
const program = `
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connectNode, createHttp } from '${pathToFileURL(built('esm/internal.js'))}'

let freed = 0
const server = createServer((request, response) => {
  const drip = setInterval(() => response.write('x'), 20)
  if (!request.url.includes('drip')) clearInterval(drip)
  response.on('close', () => {
    clearInterval(drip)
    freed++
    server.emit('freed')
  })
  response.writeHead(request.url.includes('refused') ? 503 : 200).write('x')
  server.emit('answered')
})
await once(server.listen(0, '127.0.0.1'), 'listening')
const url = \`http://127.0.0.1:\${server.address().port}/\`
const bare = (...given) => fetch(...given)
const turn = () => new Promise(setImmediate)
async function collect() {
  for (let times = 0; times < 10; times++) {
    gc()
    await turn()
  }
}

const settled = {}
let over = 0
for (const [name, http] of [['ky', createHttp()], ['fetch', createHttp(bare)]]) {
  for (const path of ['silent', 'drip', 'refused']) {
    const controller = new AbortController()
    const request = { method: 'POST', url: url + path, headers: new Headers(), body: 'x', signal: controller.signal }
    const answered = once(server, 'answered')
    const what = name + ' ' + path
    settled[what] = 'never'
    const asked = http(request, 1000).then(() => 'answered', error => error.message).then(how => { settled[what] = how })
    await answered
    // The head reaches the client.
    for (let turns = 0; turns < 20; turns++) await turn()
    await collect()
    controller.abort(new Error('too late'))
    // No event is waited for: the client itself ends the wait.
    await turn()
    over++
    if (settled[what] === 'too late') while (freed < over) await once(server, 'freed')
  }
}
// A deadline that nobody holds but the request.
const collecting = setInterval(gc, 20)
for (const [name, ask] of [
  ['timeout', () => createHttp()({ method: 'GET', url, headers: new Headers(), signal: AbortSignal.timeout(300) }, 1000)],
  ['node', () => connectNode(url, 300).request({ method: 'eth_chainId', params: [] })],
]) settled[name] = await ask().then(() => 'answered', error => error.name)
clearInterval(collecting)
console.log(JSON.stringify(settled))
process.exit()
`

let child: ChildProcess | undefined
// Without the time limit, the program would wait for ever.
afterAll(() => {
  child?.kill('SIGKILL')
})

test('a request whose head has come keeps its time limit when garbage is collected', async () => {
  const running = spawn(process.execPath, ['--expose-gc', '--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child = running
  const output = { out: '', err: '' }
  running.stdout.on('data', chunk => {
    output.out += chunk
  })
  running.stderr.on('data', chunk => {
    output.err += chunk
  })
  const [code] = await once(running, 'close')
  expect({ code, err: output.err }).toEqual({ code: 0, err: '' })
  // A refusal is answered without its body after a second, which may be over.
  const refused = expect.stringMatching(/^(too late|answered)$/)
  expect(JSON.parse(output.out)).toEqual({
    'ky silent': 'too late',
    'ky drip': 'too late',
    'ky refused': refused,
    'fetch silent': 'too late',
    'fetch drip': 'too late',
    'fetch refused': refused,
    timeout: 'TimeoutError',
    node: 'TimeoutError',
  })
})
