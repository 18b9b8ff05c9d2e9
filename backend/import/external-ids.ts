/** Converts the ids of invoices and customers in an imported file to external ids, and back. */

/**
 * Percent-encodes spaces, which external ids cannot contain. "%" is encoded too, so that different ids remain
 * different.
 */
export function toExternalId(id: string): string {
  return id.replace(/[\s%]/gu, encodeURIComponent)
}

/** Returns the id from which an import creates the external id. */
export function fromExternalId(externalId: string): string {
  return externalId.replace(/(?:%[0-9A-F]{2})+/g, (encoded) => {
    const id = Buffer.from(encoded.replaceAll('%', ''), 'hex').toString()
    // Other systems create external ids with percent signs that encode something else, or nothing.
    return toExternalId(id) === encoded ? id : encoded
  })
}
