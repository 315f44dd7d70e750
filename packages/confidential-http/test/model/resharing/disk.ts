/** The process has ended: nothing that it does from here on counts. */
export class Crash extends Error {}

/** The files of all holders, in memory. A write is whole or has not been made. */
export class Disk {
  readonly files: Map<string, string> = new Map()
  /** Called before each operation of a holder, which it ends by a throw. */
  onOperation: (path: string) => void = () => undefined

  /** The files of a folder now. */
  snapshot(folder: string): ReadonlyMap<string, string> {
    return new Map([...this.files].filter(([path]) => path.startsWith(`${folder}/`)))
  }

  /** Puts a folder back to what it was. */
  restore(folder: string, files: ReadonlyMap<string, string>): void {
    for (const path of this.snapshot(folder).keys()) this.files.delete(path)
    for (const [path, text] of files) this.files.set(path, text)
  }

  private begin(path: string): void {
    this.onOperation(path)
  }

  read(path: string): string | undefined {
    this.begin(path)
    return this.files.get(path)
  }

  write(path: string, text: string): void {
    this.begin(path)
    this.files.set(path, text)
  }

  list(folder: string): string[] {
    this.begin(folder)
    return [...this.files.keys()]
      .filter(path => path.startsWith(`${folder}/`))
      .map(path => path.slice(folder.length + 1))
  }

  rename(from: string, to: string): void {
    this.begin(from)
    const text = this.files.get(from)
    if (text === undefined) throw Object.assign(new Error('ENOENT'), { code: 'ENOENT' })
    this.files.delete(from)
    this.files.set(to, text)
  }

  remove(path: string): void {
    this.begin(path)
    this.files.delete(path)
  }
}
