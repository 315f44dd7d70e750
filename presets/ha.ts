import { checkOptions, type OptionNames } from '../core/options.js'
import {
  basePreset,
  type DefaultPresetOptions,
  discoveryOf,
  type PresetPlugins,
  presetNames,
} from './base.js'

/** Options of `haPreset`. */
export interface HaPresetOptions extends DefaultPresetOptions {
  /** Milliseconds for the opening of a connection. @default 10000 */
  readonly haConnectionTimeout?: number
}

/** The names of these options. */
export const haNames: OptionNames<HaPresetOptions> = {
  ...presetNames,
  haConnectionTimeout: true,
}

/** The stack of `createClient` with `haMode: true`: one connection per origin, no duplicates. */
export function haPreset(given: HaPresetOptions): PresetPlugins {
  const { haConnectionTimeout, ...options } = checkOptions('haPreset', given, haNames)
  return basePreset('haPreset', options, discoveryOf(haConnectionTimeout))
}
