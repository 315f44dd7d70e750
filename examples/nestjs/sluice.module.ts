// A module of Nest that makes one client for the application, and closes it after all that use it.
import {
  type DynamicModule,
  type FactoryProvider,
  Inject,
  Module,
  type ModuleMetadata,
  type OnApplicationShutdown,
} from '@nestjs/common'
import { type Client, type Config, createClient } from 'sluice'
import type { DecodedReport } from 'sluice/plugins/decoders'

/** The client as the module makes it. */
export type ReportsClient = Client<DecodedReport>

const CLIENT = Symbol('the client of sluice')
const CONFIG = Symbol('the configuration of sluice')

/** Injects the client: `constructor(@InjectClient() client: ReportsClient)`. */
export const InjectClient = (): ParameterDecorator & PropertyDecorator => Inject(CLIENT)

/** Where the configuration comes from, as with other modules of Nest. */
export interface SluiceAsyncOptions
  extends Pick<ModuleMetadata, 'imports'>,
    Pick<FactoryProvider<Config>, 'inject' | 'useFactory'> {}

@Module({})
export class SluiceModule implements OnApplicationShutdown {
  readonly #client: ReportsClient

  constructor(@InjectClient() client: ReportsClient) {
    this.#client = client
  }

  /** The module with a configuration that other providers give. */
  static forRootAsync({
    imports = [],
    inject = [],
    useFactory,
  }: SluiceAsyncOptions): DynamicModule {
    return {
      module: SluiceModule,
      global: true,
      imports,
      providers: [
        { provide: CONFIG, inject, useFactory },
        { provide: CLIENT, inject: [CONFIG], useFactory: (config: Config) => createClient(config) },
      ],
      exports: [CLIENT],
    }
  }

  /** Runs after `onModuleDestroy` of all providers, which close their streams there. */
  async onApplicationShutdown(): Promise<void> {
    await this.#client.close()
  }
}
