import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Who has permissions in the documentation. */
export const roles: readonly string[] = [
  'relay',
  'worker',
  'queue',
  'letters',
  'gateway',
  'monitor',
]

/** What the documentation says that a role may publish to. */
function permissionsOf(role: string): readonly string[] {
  const page = readFileSync(join(__dirname, '../../../../docs/reference/scale-out.md'), 'utf8')
  const [, block] =
    new RegExp(`^### ${role}\\n[^#]*?^\`\`\`conf\\n([^\`]*)^\`\`\``, 'm').exec(page) ?? []
  if (block === undefined) throw new Error(`the page has no permissions of ${role}`)
  return [...block.matchAll(/"([^"]+)"/g)].map(([, subject]) => subject as string)
}

/** The configuration of a server whose users are these roles, each with its permissions and its own inbox. */
export function serverConfig(): string {
  const users = roles.map(role => {
    const subjects = permissionsOf(role).map(subject => JSON.stringify(subject))
    return `{
      user: ${role}, password: ${role}
      permissions { publish { allow: [${subjects.join(', ')}] }, subscribe { allow: ["_INBOX_${role}.>"] } }
    }`
  })
  return `authorization { users: [${users.join('\n')}] }`
}
