/**
 * Waits until all `work` has ended, even if some of it fails. Each element of `work` is the promise of one or more
 * statements; undefined stands for none. All statements must belong to one transaction. Statements that were begun
 * together are sent together. Throws the error of the first failed element in `work`: the elements after it fail as
 * a consequence, and their errors do not show the cause.
 */
export async function together<const Work extends readonly unknown[]>(
  work: Work,
): Promise<{ -readonly [At in keyof Work]: Awaited<Work[At]> }> {
  const outcomes = await Promise.allSettled(work)
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  return Promise.all(work)
}
