import type { Command } from 'commander'
import type { Config } from 'sluice'
import { ValidationError } from 'sluice/core'
import { readFile } from '../input/files.js'

/** The options that say how the service is reached. */
export interface NetworkOptions {
  readonly proxy?: string
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

/** Adds them to a command. */
export function addNetworkOptions(command: Command): Command {
  return command
    .option('--proxy <url>', 'go through this proxy; env for that of HTTPS_PROXY and the like')
    .option('--ca <file>', 'trust the authorities of this file alone, in PEM')
    .option('--cert <file>', 'show this client certificate, in PEM')
    .option('--key <file>', 'its private key, in PEM; TLS_PASSPHRASE decrypts it')
}

/** Reads them, as the configuration of a client has them. */
export function readNetwork(
  { proxy, ca, cert, key }: NetworkOptions,
  env: Readonly<Record<string, string | undefined>>,
): Pick<Config, 'proxy' | 'tls'> {
  if (proxy?.includes('@'))
    throw new ValidationError(
      '--proxy must have no user name and password, which others could see: set HTTPS_PROXY, and give --proxy env',
    )
  const passphrase = key === undefined ? undefined : env.TLS_PASSPHRASE
  const tls = {
    ...(ca === undefined ? {} : { ca: readFile('--ca', ca) }),
    ...(cert === undefined ? {} : { cert: readFile('--cert', cert) }),
    ...(key === undefined ? {} : { key: readFile('--key', key) }),
    ...(passphrase ? { passphrase } : {}),
  }
  return {
    ...(proxy === undefined ? {} : { proxy }),
    ...(Object.keys(tls).length === 0 ? {} : { tls }),
  }
}
