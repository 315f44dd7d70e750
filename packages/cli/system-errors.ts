/** What the codes of the system say, for those that a wrong path brings. */
const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  EACCES: 'you may not',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of the path is no folder',
  EEXIST: 'there is another file',
  EPERM: 'the system does not allow it',
  EROFS: 'this part of the disk is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'your share of the disk is full',
  EFBIG: 'the file would be larger than is allowed',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'links lead in a circle',
}

/** The code of a system's error, and what it means. */
export function describeCode(cause: unknown): string {
  const code = String((cause as Partial<NodeJS.ErrnoException> | undefined)?.code)
  return reasons[code] === undefined ? code : `${code}, ${reasons[code]}`
}
