// The words that this repository no longer uses, with those of the field, which take their place.

/** Retired everywhere: in names, comments, texts and documents. A term of several words is retired in prose. */
export const everywhere = [
  ['lane lanes', 'shard'],
  ['valve valves', 'flow control, pause'],
  ['hold back|holds back|held back|holding back', 'pause, delay, withstand'],
  ['let in|lets in|letting in', 'accept'],
  ['dial dials dialled dialling dialed dialing dialler', 'connect'],
  ['goodbye goodbyes', 'close handshake'],
  ['books', 'registry'],
  ['company companies', 'sibling connections'],
  ['silence silences silent', 'staleness, stale, quiet'],
  ['withhold withholds withheld withholding', 'redact'],
  ['stray strays strayed', 'outlier, candidate'],
  ['leap leaps leapt', 'outlier, candidate'],
  ['jump jumps jumped', 'outlier, candidate'],
  ['aside asides', 'outlier, candidate'],
  ['hole holes', 'missing range'],
  ['deny denies denied denying', 'drop, reject, unauthorised'],
  ['forgo forgoes forgone', 'drop, unauthorised'],
  ['judge judges judged judging judgement judgment', 'verify, compare'],
  ['contest contests contested', 'compare'],
  ['vet vets vetted vetting', 'verify'],
  ['appoint appoints appointed', 'provide'],
  ['reception receptions', 'intake'],
  ['glance glances', 'fast path'],
  ['memo memos', 'cache'],
  ['doom dooms doomed', 'closing'],
  ['for who|for whoever', 'a subject and a verb'],
]

/** Common English, retired in names alone; where there is a pattern, in the files of these paths. */
export const inNames = [
  ['turn turns', 'permit, slot, tick, queue, attempt'],
  ['account accounts', 'registry, or what it is'],
  ['tell tells telling told', 'emit, notify, report'],
  ['hear hears heard', 'on…, listener, received'],
  ['announce announces announcement announcements', 'emit, notify, report'],
  ['kept', 'cache, or what it is'],
  [
    'record records',
    'envelope',
    /^(core|report|client|plugins(?!\/opentelemetry\/)|presets|index)\b/,
  ],
  ['stretch stretches', 'missing range'],
]

/** Where such a word is right: the exact phrase, and the reason. */
export const phrases = [
  ['--silent', 'an option of npm'],
  ['silent: true', 'an option of child_process.fork'],
  ["'empty-import-meta': 'silent'", 'an option of esbuild'],
  ["logLevel: 'silent'", 'an option of esbuild'],
  ['silently', 'an adverb like any other'],
  ['order books', 'of an exchange'],
  ['clock jumps', 'what clocks do'],
  ['leap second', 'of a clock'],
  ['leap year', 'of a calendar'],
  ['Permission denied', 'of the operating system'],
  ['permission denied', 'of the operating system'],
]

/** Names where such a word is right, and the reason. */
export const names = [
  [/^Record$/, 'a type of TypeScript'],
  [/announce\w*gap|gaps?announce/i, 'an announced gap is the term of the field'],
]
