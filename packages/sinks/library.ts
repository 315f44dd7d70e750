import type * as DuckDB from '@duckdb/node-api'
import type * as Kafka from '@platformatic/kafka'
import type * as Postgres from 'pg'
import { ValidationError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'

// The libraries of the stores are optional peer dependencies. They are loaded when a store is
// opened, never by an import of this package.

/**
 * Returns a function that loads a library once. If the library can't be loaded, the function
 * rejects with an error that says what to install. The next call tries again.
 */
export function lazyLibrary<Module>(
  name: string,
  load: () => Promise<Module>,
): () => Promise<Module> {
  let loading: Promise<Module> | undefined
  return function loadOnce() {
    loading ??= load().catch(thrown => {
      loading = undefined
      throw new ValidationError(`the package ${name} could not be loaded: npm install ${name}`, {
        cause: foreignCause(thrown),
      })
    })
    return loading
  }
}

/** The library of DuckDB. */
export type DuckDBLibrary = typeof DuckDB

/** Loads the library of DuckDB. */
export const loadDuckDB: () => Promise<DuckDBLibrary> = lazyLibrary(
  '@duckdb/node-api',
  () => import('@duckdb/node-api'),
)

/** The library of Kafka. */
export type KafkaLibrary = typeof Kafka

/** Loads the library of Postgres. */
export const loadPostgres: () => Promise<typeof Postgres> = lazyLibrary('pg', () => import('pg'))
/** Loads the library of Kafka. */
export const loadKafka: () => Promise<KafkaLibrary> = lazyLibrary(
  '@platformatic/kafka',
  () => import('@platformatic/kafka'),
)
