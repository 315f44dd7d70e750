import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DataEngine, startDataEngine } from '@sluice/engine'

/** A command, what ends it if not itself, and what it prints on a terminal and in a pipe. */
export interface Case {
  readonly args: readonly string[]
  readonly until?: RegExp
  readonly terminal: RegExp
  readonly pipe: RegExp
}

const signed = ['--signers', 'signers.json']
// Feeds come in any order.
const line = /(?:ETH|BTC)\/USD +V3 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ +price \d+\.\d{4} /
export const cases: Readonly<Record<string, Case>> = {
  feeds: {
    args: [],
    terminal: /ETH\/USD +0x0003[0-9a-f]{60} +Crypto/,
    pipe: /^0x0003[0-9a-f]{60}\n0x/,
  },
  latest: { args: ['ETH/USD'], terminal: /price +\d+\.\d+\n/, pipe: /price +\d+\.\d+\n/ },
  page: { args: ['ETH/USD', '--from', '1h', '--limit', '3'], terminal: line, pipe: line },
  bulk: {
    args: ['ETH/USD,BTC/USD', '--json'],
    terminal: /"prices":\{/,
    pipe: /^\{.*\}\n\{.*\}\n$/,
  },
  history: {
    args: ['ETH/USD', '--from', '1h', '--to', '2s', '--csv'],
    terminal: /\nfeedID,name|^feedID,name/,
    pipe: /^feedID,name.*\n(0x.*\n){25}/,
  },
  gaps: {
    args: ['--feed', 'ETH/USD', '--from', '1h'],
    terminal: /\d reports of 1 feed: no gaps/,
    pipe: /^\d+ reports of 1 feed: no gaps\n$/,
  },
  decode: { args: ['report.json'], terminal: /version +V\d/, pipe: /^version +V\d/ },
  verify: {
    args: ['report.json', ...signed],
    terminal: /verified: signed by 2/,
    pipe: /^verified: signed by 2/,
  },
  stream: {
    args: ['ETH/USD', 'BTC/USD', '--ha', ...signed],
    until: /BTC\/USD +(V3|\d)/,
    terminal: /\d reports, \d+ verified, duplicates/,
    pipe: line,
  },
  doctor: {
    args: ['ETH/USD', '--seconds', '0.5'],
    terminal: /origin 002: connected.*\d failed, \d warn/s,
    pipe: /^ok +node .*\nok +feeds +ETH\/USD 0x0003.*\d failed, \d warn/s,
  },
  certify: {
    args: ['ETH/USD', 'BTC/USD', '--for', '2s', '--rate', '10'],
    terminal: /pass +origin-list.*- Service: other, REST at 127/s,
    pipe: /^# 127.*\n## Checks\n.*\| `bulk` \| .* \| pass \| 200 with 2 of 2/s,
  },
  record: {
    args: ['ETH/USD', '--dir', 'recording', '--from', '1h', '--flush', '20'],
    until: /is connected/,
    terminal: /\d reports? written/,
    pipe: /^$/,
  },
  replay: {
    args: ['report.json', '--port', '0'],
    until: /published/,
    terminal: /WS_URL=ws:.*1 report published/s,
    pipe: /WS_URL=ws:/,
  },
  serve: {
    args: ['--port', '0', '--signers-out', 'x.json'],
    until: /0x000e/,
    terminal: /signers; f is 1:\n {2}0x/,
    pipe: /USER_SECRET=/,
  },
}

/** A service, and a directory with the files that the commands read. */
export class World implements AsyncDisposable {
  readonly engine: DataEngine
  readonly folder: string = mkdtempSync(join(tmpdir(), 'sluice-everywhere-'))

  private constructor(engine: DataEngine) {
    this.engine = engine
    writeFileSync(join(this.folder, 'signers.json'), JSON.stringify(engine.network))
    const [report] = engine.ledger()
    writeFileSync(join(this.folder, 'report.json'), JSON.stringify(report))
  }

  static async start(): Promise<World> {
    return new World(
      await startDataEngine({ origins: 2, intervalMs: 100, runAhead: true, history: 30 }),
    )
  }

  /** The environment of a command. The service may be behind a proxy. */
  env({ endpoint, wsEndpoint }: Urls = this.engine): Record<string, string> {
    const { apiKey, userSecret } = this.engine
    return { API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint }
  }

  /** A directory of a command's own, for what it writes. */
  ownFolder(name: string): string {
    const own = mkdtempSync(join(this.folder, `${name}-`))
    for (const file of ['signers.json', 'report.json'])
      copyFileSync(join(this.folder, file), join(own, file))
    return own
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine.close()
    rmSync(this.folder, { recursive: true })
  }
}

interface Urls {
  readonly endpoint: string
  readonly wsEndpoint: string
}

/** Two commands in a pipe: the line of the shell after `sluice`, and what it prints. */
export const pipelines: readonly (readonly [string, RegExp])[] = [
  ['latest ETH/USD --json | sluice verify - --signers signers.json', /^verified: signed by 2/],
  ['history ETH/USD --from 1h --json | sluice decode - --csv', /^feedID,name.*\n(0x.*\n){30}/],
]
