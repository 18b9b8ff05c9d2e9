import type { Call } from '../call/call.ts'
import { clientAddress } from '../downstream/client-address.ts'
import type { RequestHead } from '../http1/request-head.ts'
import { type Authenticator, addressNotAllowed } from '../keys/authenticator.ts'
import type { KnownKey } from '../keys/look-up.ts'
import { updateLimitOfAllowance } from './allowance.ts'

export interface AddressCheck {
  addressOf(head: RequestHead, call: Call): string
  isAllowed(key: KnownKey, head: RequestHead, call: Call): boolean
  /**
   * Confirms the key by a look-up that began at or after `since` (by default, the arrival of the call), and resolves
   * with the confirmed key. Rejects as `Authenticator.confirm` does, and with `Problem` 403 if the confirmed key does
   * not allow the address.
   */
  confirm(digest: string, head: RequestHead, call: Call, since?: number): Promise<KnownKey>
}

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
      call.keyForLimitHeaders = key
      if (isAllowed(key, head, call)) return key
      // `confirm` also runs after the call was counted, e.g. when the backend has rejected the principal.
      updateLimitOfAllowance(call, key)
      throw addressNotAllowed()
    },
  }
}
