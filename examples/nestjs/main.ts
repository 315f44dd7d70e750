// An application without a web server. A server has the same module, and NestFactory.create.
import 'reflect-metadata'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { PricesService } from './prices.service.js'
import { SluiceModule } from './sluice.module.js'

/** What the environment says, as a provider that others can replace. */
class Settings {
  readonly apiKey = process.env.API_KEY ?? ''
  readonly userSecret = process.env.USER_SECRET ?? ''
  readonly endpoint = process.env.REST_URL ?? 'https://api.testnet-dataengine.chain.link'
  readonly wsEndpoint = process.env.WS_URL ?? 'wss://ws.testnet-dataengine.chain.link'
}

@Module({ providers: [Settings], exports: [Settings] })
class SettingsModule {}

@Module({
  imports: [
    SluiceModule.forRootAsync({
      imports: [SettingsModule],
      inject: [Settings],
      useFactory: ({ apiKey, userSecret, endpoint, wsEndpoint }: Settings) => ({
        apiKey,
        userSecret,
        endpoint,
        wsEndpoint,
      }),
    }),
  ],
  providers: [PricesService],
})
class AppModule {}

async function main(): Promise<void> {
  const app = await NestFactory.createApplicationContext(AppModule, { abortOnError: false })
  app.enableShutdownHooks()
}

main().catch((error: Error) => {
  console.error(error.message)
  process.exitCode = 1
})
