import { until } from '../fixtures/service/until.ts'

/** Resolves when a server that has been started responds to a GET, with any status below 500. */
export async function untilResponding(
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<void> {
  const isUp = () =>
    fetch(url, { headers }).then(
      ({ status }) => status < 500,
      () => false,
    )
  await until(isUp, `${url} responds`, 30_000)
}
