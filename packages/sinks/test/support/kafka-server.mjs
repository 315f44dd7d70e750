// A Kafka of the tests: one process that is broker and controller, fetched by Maven, run by a JRE.
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { endProcess, freePorts, isProgram, onPath, waitUntilUp } from './server-programs.mjs'

const project = fileURLToPath(new URL('kafka-pom.xml', import.meta.url))
const [, VERSION] = /<version>(\d+\.\d+\.\d+)</.exec(readFileSync(project, 'utf8'))
/** Whose passwords the listener with SASL knows. The user `admin` may do all, `reader` nothing. */
const passwords = { admin: 'admin-secret', reader: 'reader-secret' }

/** The folder of the broker's libraries; undefined where Maven or a JRE is missing. */
export function findKafka() {
  if (!onPath('java').some(isProgram)) return undefined
  const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir() || tmpdir(), '.cache'), 'sluice')
  const folder = join(cache, `kafka-${VERSION}`)
  if (existsSync(folder)) return folder
  if (!onPath('mvn').some(isProgram)) return undefined
  console.log(`test:sinks fetches Kafka ${VERSION}`)
  mkdirSync(cache, { recursive: true })
  // A folder that is not whole never has the name that is looked for.
  const draft = mkdtempSync(join(cache, 'kafka-'))
  const goal = ['dependency:copy-dependencies', '-DincludeScope=runtime']
  const { status } = spawnSync(
    'mvn',
    ['-q', '-B', '-f', project, ...goal, `-DoutputDirectory=${draft}`],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  )
  if (status !== 0) return undefined
  renameSync(draft, folder)
  return folder
}

/** What to say where there is none. */
export const noKafka = `there is no Kafka ${VERSION}: it takes java and, to fetch the broker once, mvn`

const log4j = `
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
`

function serverProperties(folder, { plain, tls, sasl, lossy, proxy, controller }) {
  const users = Object.entries(passwords).map(([user, password]) => `user_${user}="${password}"`)
  return `
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${controller}
listeners=PLAIN://127.0.0.1:${plain},TLS://127.0.0.1:${tls},SASL://127.0.0.1:${sasl},LOSSY://127.0.0.1:${lossy},CONTROLLER://127.0.0.1:${controller}
advertised.listeners=PLAIN://127.0.0.1:${plain},TLS://127.0.0.1:${tls},SASL://127.0.0.1:${sasl},LOSSY://127.0.0.1:${proxy}
listener.security.protocol.map=PLAIN:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,LOSSY:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
log.dirs=${folder}/logs
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=300
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
listener.name.sasl.sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required ${users.join(' ')};
listener.name.tls.ssl.keystore.type=PKCS12
listener.name.tls.ssl.keystore.location=${folder}/keys.p12
listener.name.tls.ssl.keystore.password=changeit
`
}

/** Makes the key of the listener with TLS, and writes its certificate to `certificate.pem`. */
function makeCertificate(folder) {
  const store = ['-keystore', join(folder, 'keys.p12'), '-storepass', 'changeit', '-alias', 'kafka']
  const keytool = (...args) => {
    const { status, stdout } = spawnSync('keytool', [...args, ...store], { encoding: 'utf8' })
    if (status !== 0) throw new Error(`keytool failed: ${stdout}`)
  }
  const names = ['-dname', 'CN=kafka', '-ext', 'san=ip:127.0.0.1']
  keytool('-genkeypair', '-keyalg', 'EC', ...names, '-storetype', 'PKCS12', '-validity', '30')
  keytool('-exportcert', '-rfc', '-file', join(folder, 'certificate.pem'))
}

/** Starts a broker on 127.0.0.1. */
export async function startKafka(libraries = findKafka()) {
  if (libraries === undefined) throw new Error(noKafka)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-kafka-'))
  const [plain, tls, sasl, lossy, proxy, controller] = await freePorts(6)
  const settings = join(folder, 'server.properties')
  writeFileSync(settings, serverProperties(folder, { plain, tls, sasl, lossy, proxy, controller }))
  writeFileSync(join(folder, 'log4j.properties'), log4j)
  makeCertificate(folder)
  const java = (heap, ...args) => [
    // Few classes run for long: the first compiler starts them sooner.
    `-Xmx${heap}`,
    '-XX:TieredStopAtLevel=1',
    '-Xshare:auto',
    '-cp',
    join(libraries, '*'),
    `-Dlog4j.configuration=file:${join(folder, 'log4j.properties')}`,
    ...args,
  ]
  const id = randomBytes(16).toString('base64url').replace(/^-/, 'A')
  const format = ['kafka.tools.StorageTool', 'format', '-t', id, '-c', settings]
  const formatted = spawnSync('java', java('128m', ...format), { encoding: 'utf8' })
  if (formatted.status !== 0)
    throw new Error(`StorageTool failed:\n${formatted.stdout}${formatted.stderr}`)

  let output = ''
  let server

  async function start() {
    server = spawn('java', java('256m', 'kafka.Kafka', settings), {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [server.stdout, server.stderr])
      stream.on('data', chunk => {
        output = (output + chunk).slice(-20_000)
      })
    await waitUntilUp(
      server,
      () => accepts(plain),
      () => output,
    )
  }

  await start()
  return {
    plain: `127.0.0.1:${plain}`,
    tls: `127.0.0.1:${tls}`,
    sasl: `127.0.0.1:${sasl}`,
    /** The listener `lossy` tells clients to connect to the port `proxy`, which a test serves. */
    lossy,
    proxy,
    passwords,
    /** The certificate of the listener with TLS. */
    certificate: readFileSync(join(folder, 'certificate.pem'), 'utf8'),
    /** What the broker has written lately. */
    get output() {
      return output
    },
    /** Sends a signal to the broker. */
    signal: signal => server.kill(signal),
    /** Ends the broker. */
    stop: signal => endProcess(server, signal),
    /** Starts it again, on the same ports. */
    start,
    /** The arguments of java for a tool of Kafka. */
    tool: (...args) => java('128m', ...args),
    async close() {
      await endProcess(server, 'SIGKILL')
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
    },
  }
}

function accepts(port) {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    const end = isUp => {
      socket.destroy()
      resolve(isUp)
    }
    socket.once('connect', () => end(true)).once('error', () => end(false))
  })
}
