import { checkNumber, checkOptions, MAX_TIMER, type OptionNames } from '../core/options.js'
import { haDiscovery } from '../plugins/ha-discovery/index.js'
import {
  type DefaultPresetOptions,
  defaultPreset,
  type PresetPlugins,
  presetNames,
} from './default.js'
import { DEFAULT_HA_CONNECTION_TIMEOUT } from './defaults.js'

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
export function haPreset(options: HaPresetOptions): PresetPlugins {
  const { haConnectionTimeout = DEFAULT_HA_CONNECTION_TIMEOUT, ...others } = checkOptions(
    'haPreset',
    options,
    haNames,
  )
  checkNumber('haConnectionTimeout', haConnectionTimeout, { min: 1, max: MAX_TIMER })
  const discovery = haDiscovery({ connectTimeout: haConnectionTimeout })
  return defaultPreset(others).flatMap(plugin =>
    plugin.name === 'retry' ? [discovery, plugin] : [plugin],
  )
}
