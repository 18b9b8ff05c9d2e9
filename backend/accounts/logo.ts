/**
 * The logo in an account's reminders: a PNG or JPEG, recognized by its bytes. SVG is rejected, because it can contain
 * scripts and references to other files. The id of a logo is the digest of its content. Messages refer to this id, so
 * they keep their logo when the account gets another one.
 */
import { createHash } from 'node:crypto'
import { imageSize } from 'image-size'
import type { AccountLogoRow, Reader, Transaction } from '../database/tables.ts'
import { fieldErrorsProblem } from '../validation/field-errors.ts'
import { type Picture, parseJpeg, parsePng } from './logo-metadata.ts'

/** The limit is low, because every reminder contains the logo. */
export const LOGO_BYTES_MAX = 65_536
/** The limits of both width and height. Smaller images look blurred; larger ones only make mails larger. */
export const LOGO_PIXELS_MIN = 16
export const LOGO_PIXELS_MAX = 2000

/** The EXIF orientation of a picture that is neither rotated nor mirrored. */
const UPRIGHT = 1

export type LogoProperties = Pick<AccountLogoRow, 'id' | 'width' | 'height'>

export interface Logo extends LogoProperties {
  readonly mediaType: AccountLogoRow['media_type']
  readonly content: Buffer
}

interface Format {
  readonly mediaType: AccountLogoRow['media_type']
  readonly start: Buffer
  readonly end: Buffer
  parse(content: Buffer): Picture | undefined
}

const FORMATS: readonly Format[] = [
  {
    mediaType: 'image/png',
    start: Buffer.from('89504e470d0a1a0a', 'hex'),
    end: Buffer.from('0000000049454e44ae426082', 'hex'),
    parse: parsePng,
  },
  {
    mediaType: 'image/jpeg',
    start: Buffer.from('ffd8ff', 'hex'),
    end: Buffer.from('ffd9', 'hex'),
    parse: parseJpeg,
  },
]

/** Throws `validation_failed` at `/logo` if the file is not a valid logo. */
export function parseLogo(file: Buffer): Logo {
  if (file.length === 0) throw invalidLogo('required', 'is required: choose a file')
  if (file.length > LOGO_BYTES_MAX) {
    throw invalidLogo('too_large', `must be at most ${LOGO_BYTES_MAX / 1024} KiB`)
  }
  const format = FORMATS.find(({ start }) => file.subarray(0, start.length).equals(start))
  if (format === undefined) {
    throw invalidLogo(
      'invalid_format',
      'must be a PNG or JPEG image; other formats, e.g. SVG, are not accepted',
    )
  }
  const { mediaType, end, parse } = format
  if (!file.subarray(-end.length).equals(end)) {
    throw invalidLogo('invalid_format', 'is damaged: its end is missing')
  }
  const picture = parse(file)
  if (picture === undefined)
    throw invalidLogo('invalid_format', 'is damaged: it cannot be read completely')
  // `withoutMetadata` does not contain the orientation.
  const { width, height, orientation = UPRIGHT } = sizeOf(picture.whole)
  if (orientation !== UPRIGHT) {
    throw invalidLogo(
      'invalid_format',
      'is rotated or mirrored only by its metadata, which we remove: save the image in its final orientation',
    )
  }
  if (Math.min(width, height) < LOGO_PIXELS_MIN || Math.max(width, height) > LOGO_PIXELS_MAX) {
    const range = `${LOGO_PIXELS_MIN} to ${LOGO_PIXELS_MAX} pixels`
    throw invalidLogo('out_of_range', `must be ${range} wide and high; it is ${width} × ${height}`)
  }
  const content = picture.withoutMetadata
  const id = createHash('sha256').update(content).digest('base64url')
  return { id, mediaType, width, height, content }
}

interface Size {
  readonly width: number
  readonly height: number
  readonly orientation?: number
}

function sizeOf(content: Buffer): Size {
  try {
    return imageSize(content)
  } catch {
    throw invalidLogo('invalid_format', 'is damaged: its size cannot be read')
  }
}

function invalidLogo(code: string, detail: string) {
  return fieldErrorsProblem([{ pointer: '/logo', code, detail: `logo ${detail}` }])
}

export async function findLogoProperties(
  reader: Reader,
  accountId: string,
  id: string | null,
): Promise<LogoProperties | undefined> {
  if (id === null) return undefined
  return reader
    .selectFrom('account_logos')
    .select(['id', 'width', 'height'])
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
}

export async function findLogo(
  reader: Reader,
  accountId: string,
  id: string | null,
): Promise<Logo | undefined> {
  if (id === null) return undefined
  const row = await reader
    .selectFrom('account_logos')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) return undefined
  const { media_type: mediaType, width, height } = row
  return { id, mediaType, width, height, content: Buffer.from(row.content, 'base64') }
}

export async function insertLogo(
  tx: Transaction,
  accountId: string,
  { id, mediaType, width, height, content }: Logo,
  now: Date,
): Promise<void> {
  await tx
    .insertInto('account_logos')
    .values({
      account_id: accountId,
      id,
      media_type: mediaType,
      width,
      height,
      content: content.toString('base64'),
      created_at: now.toISOString(),
    })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** Deletes the logos that no message uses, except the account's current logo. */
export async function deleteUnusedLogos(
  tx: Transaction,
  accountId: string,
  accountLogoId: string | null,
): Promise<void> {
  await tx
    .deleteFrom('account_logos')
    .where('account_id', '=', accountId)
    .where('id', '<>', accountLogoId ?? '')
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('message_html')
            .select('message_id')
            .whereRef('message_html.account_id', '=', 'account_logos.account_id')
            .whereRef('message_html.logo_id', '=', 'account_logos.id'),
        ),
      ),
    )
    .execute()
}
