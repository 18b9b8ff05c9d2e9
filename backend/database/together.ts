/**
 * Waits like `Promise.all` for statements of a transaction that were sent together, but always until the last
 * one has ended. If a statement fails, throws the error of the first that failed. The statements after it fail
 * as a consequence, and their errors do not show the cause.
 */
export async function together<const Statements extends readonly unknown[]>(
  statements: Statements,
): Promise<{ -readonly [At in keyof Statements]: Awaited<Statements[At]> }> {
  const outcomes = await Promise.allSettled(statements)
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  return Promise.all(statements)
}
