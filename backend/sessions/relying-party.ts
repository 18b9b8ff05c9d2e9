/**
 * Makes this service a relying party of WebAuthn: creates the options for browsers and verifies their responses. No
 * attestation is requested, because any authenticator that verifies its user is accepted.
 */
import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import type { PasskeyRow } from '../database/tables.ts'

export type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
}

export interface RelyingParty {
  /** The host name that passkeys are bound to. */
  readonly id: string
  /** The only origin whose pages may use the passkeys. */
  readonly origin: string
}

/** The time that a person has to unlock the passkey. */
export const PROMPT_MS = 5 * 60_000

export type Credential = Pick<
  PasskeyRow,
  'credential_id' | 'public_key' | 'sign_count' | 'transports'
>

/**
 * The library is loaded when a passkey is first used: loading takes a third of a second of CPU time, which would delay
 * every start.
 */
const library = () => import('@simplewebauthn/server')

/**
 * Returns the relying party for pages below `baseUrl`. Passkeys can be bound only to a host name. Therefore, a loopback
 * address is replaced with `localhost`, and the result for any other IP address is undefined.
 */
export function relyingPartyOf(baseUrl: string): RelyingParty | undefined {
  const { hostname, protocol, port } = new URL(baseUrl)
  if (/^(?:127(?:\.\d+){3}|\[::1\])$/.test(hostname)) {
    return { id: 'localhost', origin: `${protocol}//localhost${port === '' ? '' : `:${port}`}` }
  }
  const isAddress = hostname.startsWith('[') || /^\d+(?:\.\d+){3}$/.test(hostname)
  return isAddress ? undefined : { id: hostname, origin: new URL(baseUrl).origin }
}

/**
 * Returns the options for adding a passkey. `existing` contains the passkeys that the user already has. The new passkey
 * must be a discoverable credential, so that it can replace the password.
 */
export async function creationOptions(
  { id }: RelyingParty,
  user: { readonly id: string; readonly email: string },
  existing: readonly Credential[],
): Promise<PublicKeyCredentialCreationOptionsJSON> {
  const { generateRegistrationOptions } = await library()
  return generateRegistrationOptions({
    rpName: 'Receivables',
    rpID: id,
    userID: new Uint8Array(Buffer.from(user.id)),
    userName: user.email,
    userDisplayName: user.email,
    timeout: PROMPT_MS,
    attestationType: 'none',
    excludeCredentials: existing.map(descriptorOf),
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
  })
}

/**
 * Returns the options for using one of the `allowed` passkeys. If `allowed` is empty, the browser offers every passkey
 * that it has for this service.
 */
export async function requestOptions(
  { id }: RelyingParty,
  allowed: readonly Credential[],
): Promise<PublicKeyCredentialRequestOptionsJSON> {
  const { generateAuthenticationOptions } = await library()
  return generateAuthenticationOptions({
    rpID: id,
    timeout: PROMPT_MS,
    userVerification: 'required',
    ...(allowed.length === 0 ? {} : { allowCredentials: allowed.map(descriptorOf) }),
  })
}

/** Returns the credential to store; undefined if the response is not valid. */
export async function verifyCreation(
  { id, origin }: RelyingParty,
  response: RegistrationResponseJSON,
  challenge: string,
): Promise<Credential | undefined> {
  const { verifyRegistrationResponse } = await library()
  try {
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: id,
      requireUserVerification: true,
    })
    if (!verified) return undefined
    const { credential } = registrationInfo
    return {
      credential_id: credential.id,
      public_key: Buffer.from(credential.publicKey).toString('base64url'),
      sign_count: credential.counter,
      transports: JSON.stringify(credential.transports ?? []),
    }
  } catch {
    // The library throws a plain Error for every kind of invalid response.
    return undefined
  }
}

/**
 * Returns the passkey's new signature counter; undefined if the response is not valid, or if a counter that is in use
 * (not 0) has not increased, which indicates that the passkey was copied.
 */
export async function verifyUse(
  { id, origin }: RelyingParty,
  response: AuthenticationResponseJSON,
  challenge: string,
  credential: Credential,
): Promise<number | undefined> {
  const { verifyAuthenticationResponse } = await library()
  try {
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: id,
      requireUserVerification: true,
      credential: {
        id: credential.credential_id,
        publicKey: new Uint8Array(Buffer.from(credential.public_key, 'base64url')),
        counter: Number(credential.sign_count),
      },
    })
    return verified ? authenticationInfo.newCounter : undefined
  } catch {
    // The library throws a plain Error for every kind of invalid response.
    return undefined
  }
}

function descriptorOf({ credential_id, transports }: Credential) {
  return { id: credential_id, transports: JSON.parse(transports) }
}
