import type { AddCommand } from '../command.js'

/** What the help of the program says of a command, and how the command is loaded. */
export interface Entry {
  /** Its options and arguments, as the help writes them. A test compares this with the command. */
  readonly usage: string
  readonly help: string
  readonly load: () => Promise<AddCommand>
  /** True for a command that describes the others: they are loaded with it. */
  readonly needsAll?: true
}

/**
 * The commands by what a person wants to do, in the order in which the help lists them. A command
 * is loaded when it is named, so that no command waits for the packages of another.
 */
export const groups: Readonly<Record<string, Readonly<Record<string, Entry>>>> = {
  'Begin, and find what is wrong': {
    demo: {
      usage: '[options]',
      help: 'stream signed reports from a local data engine, or with credentials from the service; then make a confidential request',
      load: async () => (await import('./demo.js')).addDemoCommand,
    },
    context: {
      usage: '',
      help: 'keep the settings of services under names',
      load: async () => (await import('./context.js')).addContextCommands,
    },
    doctor: {
      usage: '[options] [feeds...]',
      help: 'find out what is wrong between this machine and the service, and what to do',
      load: async () => (await import('./doctor.js')).addDoctorCommand,
    },
    certify: {
      usage: '[options] [feeds...]',
      help: 'compare the service with its documentation, and write a record of it',
      load: async () => (await import('./certify.js')).addCertifyCommand,
    },
    completion: {
      usage: '<shell>',
      help: 'print the script that completes commands, options and feeds in a shell',
      load: async () => (await import('./completion.js')).addCompletionCommand,
      needsAll: true,
    },
  },
  'Fetch reports': {
    feeds: {
      usage: '[options]',
      help: "list the feeds of the service's catalogue: public feeds, and those of the credentials",
      load: async () => (await import('./feeds.js')).addFeedsCommand,
    },
    latest: {
      usage: '[options] <feed>',
      help: 'fetch and decode the latest report of a feed',
      load: async () => (await import('./requests.js')).addLatestCommand,
    },
    page: {
      usage: '[options] <feed>',
      help: 'fetch a page of reports of a feed, from a time on',
      load: async () => (await import('./requests.js')).addPageCommand,
    },
    bulk: {
      usage: '[options] <feeds...>',
      help: 'fetch the reports of several feeds that hold at one time',
      load: async () => (await import('./requests.js')).addBulkCommand,
    },
    history: {
      usage: '[options] <feed>',
      help: 'fetch the reports of a feed that were observed from one time to another',
      load: async () => (await import('./history.js')).addHistoryCommand,
    },
  },
  'Stream reports': {
    stream: {
      usage: '[options] <feeds...>',
      help: 'stream feeds until Ctrl-C: a table on a terminal, a line a report in a pipe',
      load: async () => (await import('./stream.js')).addStreamCommand,
    },
    monitor: {
      usage: '[options] [feeds...]',
      help: 'show a stream on a page: feeds, origins, gaps, latency and the stack',
      load: async () => (await import('./monitor.js')).addMonitorCommand,
    },
    candles: {
      usage: '[options] [feeds...]',
      help: 'candles of feeds: live until Ctrl-C, of a time that is past, or of recorded files',
      load: async () => (await import('./candles.js')).addCandlesCommand,
    },
  },
  'Record reports, and publish them again': {
    record: {
      usage: '[options] <feeds...>',
      help: 'stream feeds into files that rotate; continues where it ended, however it ended',
      load: async () => (await import('./record.js')).addRecordCommand,
    },
    gaps: {
      usage: '[options] [files...]',
      help: 'find missing reports in recorded files, or at the service: each report names the one before it',
      load: async () => (await import('./gaps.js')).addGapsCommand,
    },
    replay: {
      usage: '[options] <files...>',
      help: 'publish recorded reports through a local data engine, unchanged, at any speed',
      load: async () => (await import('./engine.js')).addReplayCommand,
    },
    serve: {
      usage: '[options]',
      help: 'run a local data engine: REST, WebSocket and a network of signers, on loopback by default',
      load: async () => (await import('./engine.js')).addServeCommand,
    },
  },
  'Store reports': {
    sink: {
      usage: '[options] <feeds...>',
      help: 'stream feeds into a database, files or a queue; continues where it ended, however it ended',
      load: async () => (await import('./sink.js')).addSinkCommand,
    },
  },
  'Read reports': {
    decode: {
      usage: '[options] <report> [feed]',
      help: 'decode reports',
      load: async () => (await import('./decode.js')).addDecodeCommand,
    },
    verify: {
      usage: '[options] <report>',
      help: 'verify the signatures of reports, by the addresses of their signers',
      load: async () => (await import('./verify.js')).addVerifyCommand,
    },
  },
  'Prove a price': {
    prove: {
      usage: '[options] <feed>',
      help: 'make a proof of a price at a moment, or of an average, from the signed reports',
      load: async () => (await import('./prove.js')).addProveCommand,
    },
    check: {
      usage: '[options] <proof>',
      help: 'check a proof against the addresses of the signers',
      load: async () => (await import('./prove.js')).addCheckCommand,
    },
  },
  'Run a relay': {
    relay: {
      usage: '[options]',
      help: 'receive the reports of feeds once, and store them in a stream of NATS JetStream; with --gateway, serve that to pages',
      load: async () => (await import('./relay.js')).addRelayCommand,
    },
    'dead-letters': {
      usage: '[options]',
      help: 'list the reports that a queue of workers has given up, or give them to it again',
      load: async () => (await import('./dead-letters.js')).addDeadLettersCommand,
    },
  },
  'Keep secrets, and use them in an enclave': {
    vault: {
      usage: '',
      help: 'store secrets for confidential requests, encrypted, in a directory',
      load: async () => (await import('./vault.js')).addVaultCommands,
    },
    keygen: {
      usage: '<file>',
      help: 'make the key pair of an enclave or of a caller: write the secret key to a file, print the public key',
      load: async () => (await import('./enclave.js')).addKeygenCommand,
    },
    enclave: {
      usage: '[options]',
      help: 'run an enclave for remote callers, with a vault of this machine',
      load: async () => (await import('./enclave.js')).addEnclaveCommand,
    },
    audit: {
      usage: '',
      help: 'read the record of an enclave, a vault or one of its holders',
      load: async () => (await import('./audit.js')).addAuditCommands,
    },
  },
}
