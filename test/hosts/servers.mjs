// Servers that hold a client and a stream: the newest price, and a clean end at SIGTERM.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Milliseconds in which a server ends. */
const END = 2000

/** Starts a program, and waits until it says where it listens. */
export async function startProgram(args, { cwd, env }) {
  const child = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let out = ''
  let said = ''
  child.stderr.on('data', chunk => {
    said += chunk
  })
  const ended = new Promise(resolve =>
    child.once('close', (code, signal) => resolve(signal ?? code)),
  )
  const begun = new Promise(resolve =>
    child.stdout.on('data', chunk => {
      out += chunk
      const found = /http:\/\/(?:127\.0\.0\.1|localhost):(\d+)/.exec(out)?.[1]
      if (found !== undefined) resolve({ found })
    }),
  )
  const { found } = await Promise.race([
    begun,
    ended.then(() => ({})),
    sleep(20_000, {}, { ref: false }),
  ])
  if (found === undefined) {
    child.kill('SIGKILL')
    throw new Error(`it did not start: ${out}${said}`)
  }
  return { child, ended, url: `http://127.0.0.1:${found}`, said: () => said }
}

/** A server of `programs/`, with what it answers. */
async function withServer({ folder, service }, step, { path, name }, use) {
  let server
  await step(name, async () => {
    server = await startProgram([join(folder, 'programs', path)], {
      cwd: folder,
      env: { ...process.env, ...service.env, PORT: '0' },
    })
  })
  if (server === undefined) return
  const ask = async (path = '') => (await fetch(`${server.url}/${path}`)).json()
  try {
    await use(server, ask)
  } finally {
    server.child.kill('SIGKILL')
  }
}

const runServer = (path, world, step) =>
  withServer(
    world,
    step,
    { path, name: 'the server starts, and opens a stream' },
    async (server, ask) => {
      const { service } = world
      await step('`/latest` answers', async () => {
        await Promise.all(Array.from({ length: 5 }, () => service.checkNewest(() => ask('latest'))))
      })
      await step('`/newest` answers', async () => {
        const one = service.check(await ask('newest'))
        await sleep(500)
        const other = service.check(await ask('newest'))
        assert.ok(other.time > one.time, 'the stream stands still')
      })
      await step('the server ends at SIGTERM', async () => {
        const sent = performance.now()
        server.child.kill('SIGTERM')
        const end = await Promise.race([server.ended, sleep(10_000, 'still there', { ref: false })])
        const took = performance.now() - sent
        assert.equal(end, 0, `it ended with ${end}: ${server.said()}`)
        assert.ok(took < END, `it took ${Math.round(took)} ms`)
        assert.equal(server.said(), '')
        assert.equal(service.engine.connections, 0)
      })
    },
  )

/** Between two invocations the process is frozen, for longer than a signature is good. */
const FROZEN = 8000

const runLambda = (world, step) =>
  withServer(
    world,
    step,
    { path: 'servers/lambda.mjs', name: 'the function starts' },
    async (server, ask) => {
      const { service } = world
      await step('the function answers', () => service.checkNewest(ask))
      await step('the function answers after a freeze', async () => {
        server.child.kill('SIGSTOP')
        await sleep(FROZEN)
        server.child.kill('SIGCONT')
        for (let count = 0; count < 3; count++) await service.checkNewest(ask)
      })
    },
  )

export const hosts = {
  fastify: (world, step) => runServer('docs/fastify.mjs', world, step),
  express: (world, step) => runServer('servers/express.mjs', world, step),
  nest: (world, step) => runServer('servers/nest.mjs', world, step),
  lambda: runLambda,
}
