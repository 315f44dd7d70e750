// A workflow written for the real SDK, whose handler is given our runtimes. It is compiled against the SDK's own types; bundled, it
// runs: the process's only argument is a vault, its environment has a URL and a certificate.
import {
  CapabilityRuntimeError,
  ConfidentialHTTPClient,
  type ConfidentialHTTPRestrictor,
  ConsensusAggregationByFields,
  CronCapability,
  type CronPayload,
  consensusIdenticalAggregation,
  consensusMedianAggregation,
  HTTPClient,
  getHeader,
  handler,
  identical,
  json,
  median,
  type NodeRuntime,
  ok,
  Report,
  type Runtime,
  text,
} from '@chainlink/cre-sdk'
import * as ours from '@sluice/confidential-http'
import { createLocalRuntime, createRemoteRuntime } from '@sluice/confidential-http'

interface Config {
  readonly url: string
  readonly ca: string
}

interface Seen {
  price: number
  name: string
}

export function onTick(runtime: Runtime<Config>, _payload: CronPayload | undefined): string {
  runtime.log(`it is ${runtime.now().toISOString()}`)
  const sent = new ConfidentialHTTPClient().sendRequest(runtime, {
    vaultDonSecrets: [{ key: 'apiKey', namespace: 'main' }],
    request: {
      url: runtime.config.url,
      method: 'POST',
      bodyString: 'key={{.apiKey}}',
      multiHeaders: { Authorization: { values: ['Bearer {{.apiKey}}'] } },
      customRootCaCertPem: btoa(runtime.config.ca),
      timeout: '9s',
    },
  })
  const response = sent.result()
  if (!ok(response)) throw new Error(`failed with ${response.statusCode}`)
  const secret = runtime.getSecret({ id: 'apiKey' }).result()
  const { apiKey } = runtime.getSecrets([{ id: 'apiKey', namespace: 'main' }]).result()
  const price = runtime
    .runInNodeMode(
      (node: NodeRuntime<Config>, factor: number) => node.config.url.length * factor,
      consensusMedianAggregation<number>(),
    )(2)
    .result()
  const seen = runtime
    .runInNodeMode(
      (): Seen => ({ price, name: 'x' }),
      ConsensusAggregationByFields<Seen>({ price: median, name: identical }),
    )()
    .result()
  const report = runtime
    .report({
      encodedPayload: btoa('payload'),
      encoderName: 'evm',
      signingAlgo: 'ecdsa',
      hashingAlgo: 'keccak256',
    })
    .result()
  return [
    text(response),
    secret.value === apiKey?.value,
    seen.price,
    seen.name,
    report.seqNr(),
  ].join(' ')
}

/** What the SDK says of it is what ours says. */
export function onFailure(runtime: Runtime<Config>): readonly string[] {
  const words: string[] = []
  const note = (work: () => unknown): void => {
    try {
      words.push(`returned ${String(work())}`)
    } catch (error) {
      words.push((error as Error).message)
    }
  }
  note(() =>
    new HTTPClient()
      .sendRequest(runtime as never, { url: 'https://x', method: 'GET' } as never)
      .result(),
  )
  note(() => runtime.getSecret({ id: 'absent' }).result())
  note(() =>
    runtime
      .runInNodeMode(
        () => runtime.getSecret({ id: 'apiKey' }).result().value,
        consensusIdenticalAggregation<string>(),
      )()
      .result(),
  )
  let leaked: NodeRuntime<Config> | undefined
  note(() =>
    runtime
      .runInNodeMode((node: NodeRuntime<Config>) => {
        leaked = node
        if (runtime.config.url !== '') throw new Error('mine')
        return 'never'
      }, consensusIdenticalAggregation<string>().withDefault('the default'))()
      .result(),
  )
  note(() =>
    new HTTPClient()
      .sendRequest(leaked as NodeRuntime<Config>, { url: 'https://x', method: 'GET' })
      .result(),
  )
  return words
}

export const workflow = [handler(new CronCapability().trigger({ schedule: '* * * * *' }), onTick)]
export { CapabilityRuntimeError }

export function run(vault: string, config: Config): void {
  const local = createLocalRuntime({
    vault,
    config,
    logging: { logger: console },
    report: ({ encodedPayload }) =>
      new Report({ rawReport: btoa(String.fromCharCode(...encodedPayload)), seqNr: '7' }),
  })
  console.log(onTick(local, undefined))
  for (const line of onFailure(local)) console.log(line)
  void local.close()
}

/** A runtime that makes no reports, and one elsewhere, are runtimes all the same. */
export function compileOnly(
  keys: { enclavePublicKey: string; callerSecretKey: string },
  config: Config,
): void {
  const plain: Runtime<unknown> = createLocalRuntime({ vault: './vault' })
  const remote = createRemoteRuntime({ url: 'http://localhost', ...keys, config })
  new ConfidentialHTTPClient().sendRequest(plain, { request: { url: 'https://x', method: 'GET' } })
  onTick(remote, undefined)
}

/** Our client in place of the SDK's: the SDK's helpers take its responses, and a hook its bounds. */
export function withOurClient(runtime: Runtime<Config>): unknown {
  const id: typeof ConfidentialHTTPClient.CAPABILITY_ID = ours.ConfidentialHTTPClient.CAPABILITY_ID
  const name: 'confidential-http' = ours.ConfidentialHTTPClient.CAPABILITY_NAME
  const version: '1.0.0-alpha' = ours.ConfidentialHTTPClient.CAPABILITY_VERSION
  const response = new ours.ConfidentialHTTPClient()
    .sendRequest(runtime, { request: { url: runtime.config.url, method: 'GET' } })
    .result()
  type Bound = ReturnType<ConfidentialHTTPRestrictor['limitSendRequest']>
  const bound: Bound = new ours.ConfidentialHTTPRestrictor().limitSendRequest(3)
  const later = ok(() => ({ result: response })).result()
  const read = [ok(response), text(response), json(response), getHeader(response, 'a'), later]
  return [id, name, version, bound, read, ours.text(response)]
}
