interface Facts {
  readonly code?: unknown
  readonly syscall?: unknown
  readonly cause?: unknown
  readonly errors?: readonly unknown[]
}

/** True where no connection was made, so that nothing has been sent: fetch keeps the reason in the causes. */
export function isUnconnected(thrown: unknown): boolean {
  if (typeof thrown !== 'object' || thrown === null) return false
  const { code, syscall, cause, errors = [] } = thrown as Facts
  if (syscall === 'connect' || syscall === 'getaddrinfo') return true
  if (code === 'UND_ERR_CONNECT_TIMEOUT') return true
  // One for each address of the host.
  if (errors.length > 0) return errors.every(isUnconnected)
  return isUnconnected(cause)
}
