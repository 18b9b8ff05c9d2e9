/**
 * Removes metadata, such as the place and time of a photograph, from the picture that an account uploads as its logo,
 * because the logo is sent to every customer. Segments of a JPEG that may affect its colors (`APP_KEPT`) are kept
 * unchanged, including any thumbnails in them.
 */

/** The chunks that determine how the picture is drawn; all others are removed. */
const PNG_KEPT = new Set([
  ...['IHDR', 'PLTE', 'IDAT', 'IEND', 'tRNS', 'bKGD', 'pHYs'],
  ...['gAMA', 'cHRM', 'sRGB', 'iCCP', 'cICP', 'sBIT'],
])
const PNG_SIGNATURE_BYTES = 8
/** The length, type and checksum of a chunk, without its data. */
const PNG_CHUNK_OVERHEAD_BYTES = 12

export interface Picture {
  /**
   * The picture with its metadata, for reading its size and orientation. Of a JPEG, fill bytes (see `segmentsOf`) and
   * bytes after the end marker are omitted.
   */
  readonly whole: Buffer
  readonly withoutMetadata: Buffer
}

/** Returns undefined if the picture is damaged. */
export function parsePng(content: Buffer): Picture | undefined {
  const kept = [content.subarray(0, PNG_SIGNATURE_BYTES)]
  let at = PNG_SIGNATURE_BYTES
  while (at + PNG_CHUNK_OVERHEAD_BYTES <= content.length) {
    const end = at + PNG_CHUNK_OVERHEAD_BYTES + content.readUInt32BE(at)
    const type = content.toString('latin1', at + 4, at + 8)
    if (end > content.length) return undefined
    if (PNG_KEPT.has(type)) kept.push(content.subarray(at, end))
    if (type === 'IEND') return { whole: content, withoutMetadata: Buffer.concat(kept) }
    at = end
  }
  return undefined
}

/**
 * A segment of a JPEG begins with a marker of two bytes: 0xff and a byte for the kind of the segment, such as these.
 */
const START = 0xd8
const END = 0xd9
const SCAN = 0xda
const COMMENT = 0xfe
/**
 * APP0 (JFIF), APP2 (usually a color profile) and APP14 (Adobe), by which programs determine the colors of the picture.
 */
const APP_KEPT = [0xe0, 0xe2, 0xee]

/** Returns undefined if the picture is damaged. */
export function parseJpeg(content: Buffer): Picture | undefined {
  const segments = segmentsOf(content)
  if (segments === undefined) return undefined
  const join = (parts: readonly Segment[]) =>
    Buffer.concat([Buffer.from([0xff, START]), ...parts.map(({ bytes }) => bytes)])
  const kept = segments.filter(({ marker }) => {
    const isApp = marker >= 0xe0 && marker <= 0xef
    return marker !== COMMENT && (!isApp || APP_KEPT.includes(marker))
  })
  return { whole: join(segments), withoutMetadata: join(kept) }
}

interface Segment {
  readonly marker: number
  readonly bytes: Buffer
}

/**
 * Returns the segments after the start marker; undefined if the picture is damaged. Omits the fill bytes before a
 * marker, because the package `image-size`, which determines the size of the picture, cannot read them. Fill bytes
 * after image data remain: `image-size` stops reading before the image data.
 */
function segmentsOf(content: Buffer): Segment[] | undefined {
  const segments: Segment[] = []
  let at = 2
  while (content[at] === 0xff) {
    while (content[at + 1] === 0xff) at++
    const marker = content[at + 1] ?? 0
    if (marker === END) return [...segments, { marker, bytes: content.subarray(at, at + 2) }]
    if (at + 4 > content.length) return undefined
    const segmentEnd = at + 2 + content.readUInt16BE(at + 2)
    const end = marker === SCAN ? endOfScan(content, segmentEnd) : segmentEnd
    if (end > content.length) return undefined
    segments.push({ marker, bytes: content.subarray(at, end) })
    at = end
  }
  return undefined
}

/** Image data ends before the next marker. It includes 0xff00, restart markers (0xd0 to 0xd7) and fill bytes. */
function endOfScan(content: Buffer, start: number): number {
  for (let at = start; at + 1 < content.length; at++) {
    const next = content[at + 1] ?? 0
    const isData = next === 0 || (next >= 0xd0 && next <= 0xd7)
    if (content[at] === 0xff && !isData && next !== 0xff) return at
  }
  return content.length
}
