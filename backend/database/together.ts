/**
 * Waits for several pieces of work in one transaction. The caller begins all of them before it awaits any, so that the
 * connection sends their statements together. An element of `work` is the promise of one or more statements, or
 * undefined. Waits until all work has ended, and then throws the error of the first failed element: the errors of later
 * elements may only be consequences, e.g. that the transaction was aborted.
 */
export async function together<const Work extends readonly unknown[]>(
  work: Work,
): Promise<{ -readonly [At in keyof Work]: Awaited<Work[At]> }> {
  const outcomes = await Promise.allSettled(work)
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  return Promise.all(work)
}
