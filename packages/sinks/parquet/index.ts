import type { SinkStore } from 'sluice/plugins/sink'
export function parquet(
  _folder: string,
  _options?: { rotateBytes?: number; rotateMs?: number },
): SinkStore {
  throw new Error('to do')
}
