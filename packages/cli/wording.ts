import { resolve } from 'node:path'
import { isStreamsError, ValidationError } from 'sluice/core'
import { fileError } from './input/files.js'
import { flagOf } from './values.js'

/** The values that a command was given, by the names of its options and arguments. */
export interface GivenValues {
  readonly options: Readonly<Record<string, unknown>>
  readonly args: Readonly<Record<string, unknown>>
  /** The names of all options that the command has, given or not. */
  readonly known: ReadonlySet<string>
}

/**
 * The options and arguments behind the fields of the library whose names differ from theirs. A
 * command has at most one of the names.
 */
const namesOf: Readonly<Record<string, readonly string[]>> = {
  'signers.signers': ['signers'],
  'signers.f': ['f', 'signers'],
  'policy.hosts': ['host'],
  'policy.methods': ['method'],
  'policy.paths': ['path'],
  'policy.in': ['in'],
  'policy.customRoots': ['customRoots'],
  'limits.maxTimeout': ['maxTimeout'],
  'callerLimits.requestsAtOnce': ['requestsAtOnce'],
  'callerLimits.requestsPerSecond': ['requestsPerSecond'],
  'callerLimits.bytesPerSecond': ['bytesPerSecond'],
  'renewAfter.requests': ['renewAfterRequests'],
  'renewAfter.quietMs': ['renewAfterQuiet'],
  'trust.writer': ['writer'],
  'trust.callers': ['caller'],
  'trust.peers': ['peer'],
  'trust.minThreshold': ['minThreshold'],
  'holder.json: writer': ['writer'],
  'holder.json: callers': ['caller'],
  'holder.json: peers': ['peer'],
  'holder.json: minThreshold': ['minThreshold'],
  'rateLimit.requests': ['rate'],
  addresses: ['holder'],
  'addresses.url': ['holder'],
  'addresses.key': ['holder'],
  callers: ['caller'],
  'callers: each key': ['caller'],
  expiresAt: ['expires'],
  baseAsset: ['asset'],
  quoteAsset: ['quote'],
  assetClass: ['class'],
  feedType: ['type'],
  attributeType: ['attribute'],
  intervalMs: ['interval'],
  feedID: ['feed'],
  feedIDs: ['feeds', 'feed'],
  startTime: ['from'],
  startTimestamp: ['from'],
  timestamp: ['at'],
  directory: ['dir', 'vault'],
}

/** Matches the field at the start of a message: `policy.hosts[0] must …`. */
const field =
  /^((?:holder\.json: )?[a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*|\[\d+\])*(?:: each key)?)(?= must | does not exist| needs )/

/**
 * Has an error name the option or the argument that the user typed, where it names a field of the
 * library. A file that can't be opened, and an argument that stands for nothing, become wrong
 * arguments.
 */
export function inWordsOf(thrown: unknown, given: GivenValues): unknown {
  return ofFile(thrown, given) ?? ofVault(thrown, given) ?? ofField(thrown, given) ?? thrown
}

function ofField(thrown: unknown, given: GivenValues): ValidationError | undefined {
  // A new holder checks its options as it reads its file.
  const isNew = isStreamsError(thrown, 'VAULT') && given.options.writer !== undefined
  if (!isNew && !isStreamsError(thrown, 'VALIDATION')) return undefined
  const { message } = thrown as Error
  const owner = /^callers\.([0-9a-f]{8}…)(?= must )/.exec(message)
  if (owner !== null && given.known.has('caller'))
    return wrong(`--caller: the owner of key ${owner[1]}${message.slice(owner[0].length)}`, thrown)
  const [written = ''] = field.exec(message) ?? []
  const { signers } = given.options
  // A file has fields of its own.
  if (/^signers[.[]/.test(written) && typeof signers === 'string' && !/^\s*0x/i.test(signers))
    return wrong(`--signers ${signers}: ${message.replace(/^signers\.?/, '')}`, thrown)
  const name = nameOf(written.replace(/\[\d+\]/g, ''), given)
  if (name === undefined) return undefined
  return wrong(`${name}${placeOf(written, given)}${message.slice(written.length)}`, thrown)
}

function nameOf(text: string, { args, known }: GivenValues): string | undefined {
  for (const name of namesOf[text] ?? [text]) {
    if (Object.hasOwn(args, name)) return `the ${name}`
    if (known.has(name)) return flagOf(name)
  }
  return undefined
}

/** Says which of several values is meant, counted from 1. */
function placeOf(written: string, { options }: GivenValues): string {
  const [, at] = /\[(\d+)\]/.exec(written) ?? []
  const [name = ''] = namesOf[written.replace(/\[\d+\]/g, '')] ?? []
  const value = options[name]
  const values = typeof value === 'string' ? value.split(',') : value
  if (at === undefined || !Array.isArray(values) || values.length < 2) return ''
  return `, value ${Number(at) + 1},`
}

/** The error of a file that an option or an argument names. */
function ofFile(thrown: unknown, { options, args }: GivenValues): ValidationError | undefined {
  const cause = systemErrorOf(thrown)
  if (cause === undefined) return undefined
  const { message } = thrown as Error
  // Other messages say more than the code of the system, such as that a key is never overwritten.
  if (cause !== thrown && !/(can't be|was not) (read|written|made|removed)/.test(message))
    return undefined
  for (const [name, value] of [...Object.entries(options), ...Object.entries(args)]) {
    if (typeof value !== 'string' || value === '') continue
    const path = [value, resolve(value)].find(
      each =>
        message.startsWith(`${each} `) ||
        message.startsWith(`${each}.lock `) ||
        cause.path === each,
    )
    if (path === undefined) continue
    const what = Object.hasOwn(options, name) ? flagOf(name) : `the ${name}`
    const isWritten = /written|made|mkdir/.test(`${message} ${cause.syscall}`)
    return fileError(what, value, cause, isWritten ? 'written to' : 'read from')
  }
  // The system names no path where it can't read what it has opened, such as a folder.
  const isRead = cause === thrown && cause.path === undefined && cause.syscall === 'read'
  return isRead && typeof args.file === 'string'
    ? fileError('the file', args.file, cause)
    : undefined
}

/** The error of the file system in an error; undefined without one. */
function systemErrorOf(thrown: unknown): NodeJS.ErrnoException | undefined {
  let error = thrown as NodeJS.ErrnoException | undefined
  while (typeof error === 'object' && error !== null) {
    if (fileCalls.has(String(error.syscall)) && error.code !== undefined) return error
    error = error.cause as NodeJS.ErrnoException | undefined
  }
  return undefined
}

/** The calls of the system that open, read and write files. */
const fileCalls: ReadonlySet<string> = new Set([
  ...['access', 'chmod', 'close', 'copyfile', 'fstat', 'fsync', 'ftruncate', 'link', 'lstat'],
  ...['mkdir', 'open', 'read', 'rename', 'rmdir', 'scandir', 'stat', 'unlink', 'write'],
])

/** The error of a folder that is no vault, and of a secret that is not in there. */
function ofVault(thrown: unknown, given: GivenValues): ValidationError | undefined {
  if (!isStreamsError(thrown, 'VAULT') || !given.known.has('vault')) return undefined
  const { message } = thrown
  if (message.includes(' is not a vault: '))
    return wrong(`--vault: ${message}; sluice vault init makes one`, thrown)
  if (message.includes(' is a vault already: '))
    return wrong(`--vault: ${message}; name another directory`, thrown)
  if (message.startsWith('key does not exist: '))
    return wrong(`the ${message}; sluice vault list shows those that do`, thrown)
  if (message.startsWith('there is no version '))
    return wrong(`${message}; sluice vault get shows those that there are`, thrown)
  const { rollbackState: state } = given.options
  if (typeof state === 'string' && [state, resolve(state)].some(each => message.startsWith(each)))
    return wrong(`--rollback-state: ${message}; name another file`, thrown)
  return undefined
}

function wrong(message: string, thrown: unknown): ValidationError {
  const { cause } = thrown as Error
  return new ValidationError(message, cause === undefined ? {} : { cause })
}
