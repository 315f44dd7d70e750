import { ValidationError } from '../../core/errors.js'

/** The most origins of a list: a hostile list must not cause a storm of connections. */
export const MAX_ORIGINS = 16

/**
 * Reads the origins in the header X-Cll-Available-Origins, `{001,002}` with or without braces. An
 * id is sent as a header and shown in logs, so ids with unsafe characters and ids that repeat a
 * secret are dropped. Throws if no id is left.
 */
export function parseOrigins(
  header: string | null,
  repeatsSecret: (text: string) => boolean = () => false,
): readonly string[] {
  if (header === null) throw new ValidationError('the answer has no X-Cll-Available-Origins')
  const ids = header
    .slice(0, 4096)
    .replace(/^\s*\{|\}\s*$/g, '')
    .split(',')
    .map(id => id.trim())
    .filter(id => /^[A-Za-z0-9._-]{1,64}$/.test(id) && !repeatsSecret(id))
  if (ids.length === 0) throw new ValidationError('X-Cll-Available-Origins names no origin')
  return [...new Set(ids)].slice(0, MAX_ORIGINS)
}
