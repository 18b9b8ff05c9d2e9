/** Parses the field `credential`, a text with the JSON of a browser's `PublicKeyCredential`. */
import joi, { type ObjectSchema } from 'joi'
import type {
  AuthenticationResponseJSON,
  RegistrationResponseJSON,
} from '../../sessions/relying-party.ts'
import { rejectField } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'

/** WebAuthn limits ids to 1023 bytes, which are 1364 characters in base64url. */
const ID = joi.string().pattern(/^[\w-]{1,1364}$/)
/** Bytes of any length in base64url. */
const BYTES = joi.string().pattern(/^[\w-]+$/)

const COMMON = {
  id: ID.required(),
  rawId: ID.required(),
  type: joi.valid('public-key').required(),
  authenticatorAttachment: joi.valid('platform', 'cross-platform'),
  clientExtensionResults: joi.object().default({}),
}

const REGISTRATION: ObjectSchema<RegistrationResponseJSON> = joi.object({
  ...COMMON,
  response: joi
    .object({
      clientDataJSON: BYTES.required(),
      attestationObject: BYTES.required(),
      // Browsers may return names that are not known yet, so only their characters, length and number are limited.
      transports: joi
        .array()
        .items(joi.string().pattern(/^[\w-]{1,40}$/))
        .max(10),
    })
    .required(),
})

const AUTHENTICATION: ObjectSchema<AuthenticationResponseJSON> = joi.object({
  ...COMMON,
  response: joi
    .object({
      clientDataJSON: BYTES.required(),
      authenticatorData: BYTES.required(),
      signature: BYTES.required(),
      // A security key may return no user handle. Some browsers then send null or an empty text.
      userHandle: joi
        .string()
        .pattern(/^[\w-]{1,128}$/)
        .empty([null, '']),
    })
    .required(),
})

/** Throws `validation_failed`. */
export function readRegistration(fields: Fields): RegistrationResponseJSON {
  return read(fields, REGISTRATION)
}

/** Throws `validation_failed`. */
export function readAuthentication(fields: Fields): AuthenticationResponseJSON {
  return read(fields, AUTHENTICATION)
}

function read<T>(fields: Fields, schema: ObjectSchema<T>): T {
  const { error, value } = schema.required().validate(parse(fields.text('credential')), {
    convert: false,
    stripUnknown: true,
  })
  if (error === undefined) return value
  return rejectField(
    'credential',
    'credential must be a string with the JSON of the credential that the browser returned.',
  )
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // The schema rejects undefined.
    return undefined
  }
}
