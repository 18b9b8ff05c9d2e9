/** Converts the ids of invoices and customers in an imported file to external ids, and back. */

/**
 * Percent-encodes white space, which external ids cannot contain. "%" is encoded too, so that different ids remain
 * different.
 */
export function toExternalId(id: string): string {
  return id.replace(/[\s%]/gu, encodeURIComponent)
}

/** Reverses `toExternalId`. */
export function fromExternalId(externalId: string): string {
  return externalId.replace(/(?:%[0-9A-F]{2})+/g, (encoded) => {
    const id = Buffer.from(encoded.replaceAll('%', ''), 'hex').toString()
    // An external id that was not created by an import may contain other percent signs. These remain unchanged.
    return toExternalId(id) === encoded ? id : encoded
  })
}
