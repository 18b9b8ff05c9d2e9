import pg from 'pg'

/**
 * Collects PostgreSQL's statistics after the warm-up, as autovacuum does within a minute. Without statistics,
 * statements are planned for empty tables, and the figures depend on how long the benchmark has run.
 */
export async function analyzeTables(databaseUrl: string): Promise<void> {
  const client = new pg.Client(databaseUrl)
  await client.connect()
  await client.query('vacuum analyze')
  await client.end()
}
