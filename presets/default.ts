import { basePreset, type DefaultPresetOptions, type PresetPlugins } from './base.js'

export type { DefaultPresetOptions, PresetPlugins }

/** The stack of `createClient` without `haMode`: one connection, all decoders. */
export function defaultPreset(options: DefaultPresetOptions): PresetPlugins {
  return basePreset('defaultPreset', options)
}
