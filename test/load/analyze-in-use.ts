import pg from 'pg'

/**
 * Has PostgreSQL count its tables once they are in use, as autovacuum does within a minute. Until then,
 * statements are planned for empty tables, and figures depend on how long the benchmark has run.
 */
export async function analyzeInUse(databaseUrl: string): Promise<void> {
  const client = new pg.Client(databaseUrl)
  await client.connect()
  await client.query('vacuum analyze')
  await client.end()
}
