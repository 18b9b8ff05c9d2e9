/**
 * Waits until all statements have ended, even if one of them fails. The statements must belong to one transaction and
 * be sent together. Throws the error of the first statement that failed: the statements after it fail as a
 * consequence, and their errors do not show the cause.
 */
export async function together<const Statements extends readonly unknown[]>(
  statements: Statements,
): Promise<{ -readonly [At in keyof Statements]: Awaited<Statements[At]> }> {
  const outcomes = await Promise.allSettled(statements)
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  return Promise.all(statements)
}
