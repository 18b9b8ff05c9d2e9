/**
 * Waits like `Promise.all` for statements of a transaction that were sent together, but always until the last
 * one has ended. If any failed, throws the error of the first one that failed: the statements after it failed
 * only for this reason, and their errors do not show the cause.
 */
export async function together<const Statements extends readonly unknown[]>(
  statements: Statements,
): Promise<{ -readonly [At in keyof Statements]: Awaited<Statements[At]> }> {
  const outcomes = await Promise.allSettled(statements)
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  return Promise.all(statements)
}
