/**
 * Waits like `Promise.all` for statements of a transaction that were sent together, but always until the
 * last one has ended. If any failed, throws the error of the one that was sent first: later statements fail
 * only because that one did, and their errors do not tell the cause.
 */
export async function together<const Statements extends readonly unknown[]>(
  statements: Statements,
): Promise<{ -readonly [At in keyof Statements]: Awaited<Statements[At]> }> {
  const outcomes = await Promise.allSettled(statements)
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  return Promise.all(statements)
}
