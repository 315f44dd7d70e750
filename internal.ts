/**
 * What the packages of this repository need besides the public entries. It is outside semantic
 * versioning: whoever imports it pins the exact version.
 */
export { clientNames } from './client/client.js'
export { createEgress } from './client/egress/egress.js'
export { checkEgress } from './client/egress/options.js'
export { type FindProxy, type ProxyServer, type Target, targetOf } from './client/egress/proxies.js'
export { createTransport } from './client/egress/transport.js'
export { networkReason } from './client/network-reason.js'
export { quoted, shown } from './client/shown.js'
export { noCursors, readCursors } from './client/stores/read-cursors.js'
export { BodyReader, PieceCounter } from './client/transport/body-reader.js'
export { createHttp, type HttpAnswer } from './client/transport/http.js'
export { connectNode, type NodeClient } from './client/transport/node-url.js'
export { checkNodeURL, checkURL } from './client/urls.js'
export { asyncDispose, isThenable } from './core/async.js'
export { foreignCause } from './core/errors.js'
export { checkObject, pickOptions } from './core/options.js'
export {
  concat,
  decodeBase64,
  encodeBase64,
  formatKey,
  isBytes,
  parseKey,
  shownKey,
} from './crypto/bytes.js'
export { createKeys, type KeyPair, parseBoxPublicKey } from './crypto/keys.js'
export {
  type BoxKeys,
  box,
  boxKeys,
  checkBoxPublicKey,
  isPublicKey,
  openBox,
  openSealed,
  seal,
} from './crypto/sealed-box.js'
// `sluice/health` has these, too. Its declarations name prom-client, which a user of a package need
// not have.
export { Health, type Measure, type Severity } from './health/health.js'
export { type StreamCause, streamCauses, watchStream } from './health/stream-health.js'
export { setImmediate, TextDecoder, TextEncoder } from './platform/globals.js'
export { Admission, type Asker, networkOf, TokenBucket } from './platform/node/admission.js'
export {
  type HTTPAnswer,
  HTTPError,
  jsonAnswer,
  writeAnswer,
  writeRawAnswer,
} from './platform/node/answer.js'
export { type ChangingFile, openChangingFile, parseJSON } from './platform/node/changing-file.js'
export {
  codeOf,
  draftPrefix,
  readTextFile,
  syncFolder,
  writeNew,
  writeWhole,
} from './platform/node/files.js'
export { gunzip } from './platform/node/gunzip.js'
export { listen } from './platform/node/listen.js'
export {
  describeProcess,
  type Lock,
  readProcess,
  takeLock,
  thisProcess,
} from './platform/node/lock.js'
export {
  type Content,
  createPermissions,
  type PermissionOptions,
  type Permissions,
  permissionRules,
} from './platform/node/permissions.js'
export { sha256 } from './platform/sha256.js'
export { BOUND_LAYOUT, openBody } from './plugins/confidential-http/response-encryption.js'
export {
  checkName,
  checkNamespace,
  checkOwner,
  checkUse,
  fileNameOf,
  formatName,
  isUse,
  randomOwner,
  withUse,
} from './plugins/confidential-http/secret.js'
export { Delays } from './plugins/retry/delays.js'
export { toError } from './plugins/verify/rule.js'
export { presetOf } from './presets/create-client.js'
export { inMilliseconds } from './report/feed-id.js'
export { type MissingReports, type ReportChain, ReportLinks } from './report/report-chain.js'
