/** Whether a key may be used from where a call comes from. */
import type { Call } from '../call/call.ts'
import { clientAddress } from '../downstream/client-address.ts'
import type { RequestHead } from '../http1/request-head.ts'
import { type Authenticator, addressNotAllowed } from '../keys/authenticator.ts'
import type { KnownKey } from '../keys/look-up.ts'
import { keepCount } from './allowance.ts'

export interface AddressCheck {
  addressOf(head: RequestHead, call: Call): string
  isAllowed(key: KnownKey, head: RequestHead, call: Call): boolean
  /**
   * `Authenticator.confirm`; `since` is the arrival of the call by default. Throws `Problem` 403 too, whose response shows
   * the limit that the key has now.
   */
  confirm(digest: string, head: RequestHead, call: Call, since?: number): Promise<KnownKey>
}

/** `trustedProxies`: how many proxies in front of the gateway add to `X-Forwarded-For`. */
export function createAddressCheck(
  trustedProxies: number,
  authenticator: Pick<Authenticator, 'confirm'>,
): AddressCheck {
  function addressOf(head: RequestHead, { record }: Call): string {
    return clientAddress(record.address, head.headers, trustedProxies)
  }

  function isAllowed({ allowedAddresses }: KnownKey, head: RequestHead, call: Call): boolean {
    return allowedAddresses === undefined || allowedAddresses.contain(addressOf(head, call))
  }

  return {
    addressOf,
    isAllowed,
    async confirm(digest, head, call, since = call.arrivedAt) {
      const key = await authenticator.confirm(digest, since)
      call.rateLimited = key
      if (isAllowed(key, head, call)) return key
      keepCount(call, key)
      throw addressNotAllowed()
    },
  }
}
