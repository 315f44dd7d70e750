// Nest without a compiler: decorators are functions, which are called on the classes.
import 'reflect-metadata'
import { Controller, Get, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { announce } from './announce.mjs'
import { client, connect, latest, newest } from './service.mjs'

const get = (controller, name, path) =>
  Get(path)(controller.prototype, name, Object.getOwnPropertyDescriptor(controller.prototype, name))

class Reports {
  onModuleInit() {
    return connect()
  }
  latest() {
    return latest()
  }
  newest() {
    return newest()
  }
  onModuleDestroy() {
    return client.close()
  }
}
Controller()(Reports)
get(Reports, 'latest', 'latest')
get(Reports, 'newest', 'newest')

class App {}
Module({ controllers: [Reports] })(App)

const app = await NestFactory.create(App, { logger: ['warn', 'error'] })
await app.listen(0, '127.0.0.1')
announce(app.getHttpServer().address().port)
// `enableShutdownHooks` would end the process by the signal: so it ends by itself, with 0.
process.once('SIGTERM', () => app.close())
