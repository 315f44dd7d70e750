/** Where cursors are kept: for each feed the time, in its unit, up to which you have had everything. */
export interface CursorStore {
  /** What was saved last; an empty record where nothing was. */
  load(): Promise<Readonly<Record<string, number>>>
  /** Takes the place of what was saved before. Never called again before it has settled. */
  save(cursors: Readonly<Record<string, number>>): Promise<void>
}
