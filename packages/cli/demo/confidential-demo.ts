import { type ChildProcess, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { writeHeapSnapshot } from 'node:v8'
import {
  ConfidentialHTTPClient,
  createLocalRuntime,
  decryptResponse,
  ok,
} from '@sluice/confidential-http'
import { createVault } from '@sluice/confidential-http/vault'
import { type IO, say as print } from '../io.js'
import { bold } from '../output/colours.js'

const SECRET = 'demoApiKey'
const AES_KEY = 'san_marino_aes_gcm_encryption_key'

/**
 * Makes a request with a secret that this process never has. Another process puts the secret into
 * the vault, and the enclave's thread fills it into the request. An HTTPS server receives the
 * request, and the answer comes back encrypted.
 */
export async function confidentialDemo(io: IO): Promise<number> {
  const say = (text: string): void => print(io, text)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-demo-'))
  const vault = await createVault(join(folder, 'vault'))
  const runtime = createLocalRuntime({ vault })
  const upstream = fork(fileURLToPath(new URL('./demo-upstream.js', import.meta.url)), [
    vault.directory,
    SECRET,
  ])
  try {
    const { url, ca } = await answerOf<{ url: string; ca: string }>(upstream)
    say(bold('A confidential request'))
    say(
      `vault       ${vault.holders.length} holders, ${vault.threshold} of them release a secret; another process put ${SECRET} in`,
    )
    const aesKey = randomBytes(32).toString('hex')
    await vault.put({ key: AES_KEY }, aesKey, { policy: 'anywhere' })
    const authorization = `Bearer {{.${SECRET}}}`
    say(`caller      sends “${authorization}” to ${url}`)
    const response = await new ConfidentialHTTPClient().sendRequestAsync(runtime, {
      vaultDonSecrets: [{ key: SECRET }, { key: AES_KEY }],
      request: {
        url,
        method: 'GET',
        multiHeaders: { Authorization: { values: [authorization] } },
        customRootCaCertPem: ca,
        encryptOutput: true,
      },
    })
    const encrypted = Buffer.from(response.body).toString('hex')
    say(
      `caller      got ${response.statusCode} and ${response.body.length} encrypted bytes: ${encrypted.slice(0, 24)}…`,
    )
    const body = new TextDecoder().decode(await decryptResponse(response, aesKey))
    say(`caller      decrypted ${body}`)

    const snapshot = writeHeapSnapshot(join(folder, 'caller.heapsnapshot'))
    const { size } = await stat(snapshot)
    upstream.send({ file: snapshot, other: aesKey })
    const [found, own] = await answerOf<readonly number[]>(upstream)
    say(
      `searched    ${(size / 1e6).toFixed(0)} MB of heap of the calling thread: its own AES key is there ${own} times, the secret ${found} times`,
    )
    return ok(response) && found === 0 && own !== 0 ? 0 : 1
  } finally {
    upstream.kill()
    await runtime.close()
    await rm(folder, { recursive: true, force: true })
  }
}

async function answerOf<Answer>(child: ChildProcess): Promise<Answer> {
  const ended = once(child, 'exit').then(() => {
    throw new Error('the process of the demonstration’s server ended')
  })
  const [answer] = await Promise.race([once(child, 'message'), ended])
  return answer as Answer
}
