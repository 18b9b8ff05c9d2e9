/** Decides whether a call with a known key is forwarded, handled by the gateway itself, or rejected. */
import type { Operation } from '../../shared/contract/contract.ts'
import { Problem } from '../../shared/contract/problem.ts'
import type { Body } from '../call/call.ts'
import { bodyTooLarge, CALL_BODY_LIMITS } from '../downstream/request-body.ts'
import type { Response } from '../downstream/response.ts'
import { insufficientScopeChallenge } from '../keys/authenticator.ts'
import type { KnownKey } from '../keys/look-up.ts'
import { limitReached } from '../rate-limit/headers.ts'
import { type Allowance, isOverLimit } from '../rate-limit/limiter.ts'
import type { Routing } from './route.ts'

export type Decision =
  | { readonly kind: 'forward'; readonly operation: Operation; readonly body: Buffer }
  | { readonly kind: 'respond'; readonly response: Response }
  | { readonly kind: 'reject'; readonly problem: Problem }

/** The first check that fails determines the response, so the order of the checks is part of the API's behavior. */
export function decide(
  routing: Routing,
  body: Body,
  key: KnownKey,
  allowance: Allowance | undefined,
): Decision {
  if (allowance !== undefined && isOverLimit(allowance)) return reject(limitReached(allowance))
  if (routing instanceof Problem) return reject(routing)
  if ('allow' in routing) {
    // The call is an OPTIONS request.
    const headers = ['allow', routing.allow, 'cache-control', 'no-store']
    return { kind: 'respond', response: { status: 204, headers, body: undefined } }
  }
  const { scope } = routing
  if (scope !== undefined && !key.scopes.has(scope)) return reject(scopeMissing(scope, key))
  if (body === 'tooLarge') return reject(bodyTooLarge(CALL_BODY_LIMITS))
  return { kind: 'forward', operation: routing, body }
}

function reject(problem: Problem): Decision {
  return { kind: 'reject', problem }
}

function scopeMissing(scope: string, key: KnownKey): Problem {
  const reason = key.grantedScopes.has(scope)
    ? 'which the account does not allow its keys at present. An Admin can allow it in Settings.'
    : 'which this key does not have. Scopes cannot be added to a key; issue a new key.'
  return new Problem('insufficient_scope', `This call needs the scope ${scope}, ${reason}`, {
    headers: { 'www-authenticate': insufficientScopeChallenge(scope) },
    members: {
      required_scope: scope,
      scopes: [...key.scopes],
      granted_scopes: [...key.grantedScopes],
    },
  })
}
