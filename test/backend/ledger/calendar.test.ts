import t from 'tap'
import {
  addDays,
  daysBetween,
  instantOf,
  isCalendarDate,
  parseInstant,
  parseTimezone,
  startOfDay,
  todayIn,
} from '../../../backend/calendar/calendar.ts'
import { calendarDateFormat, dateFormats } from '../../../backend/calendar/date-formats.ts'

t.test('only days that exist are dates', async (t) => {
  for (const date of ['2026-02-28', '2024-02-29', '2000-02-29', '9999-12-31']) {
    t.ok(isCalendarDate(date), date)
  }
  for (const date of [
    '2026-02-30',
    '2025-02-29',
    '1900-02-29',
    '2026-13-01',
    '2026-1-01',
    '2026-01-01T00:00:00Z',
    '2026',
  ]) {
    t.notOk(isCalendarDate(date), date)
  }
})

t.test('today is the date in the time zone of the account', async (t) => {
  const now = new Date('2026-11-21T23:30:00Z')
  t.equal(todayIn('UTC', now), '2026-11-21')
  t.equal(todayIn('Europe/Amsterdam', now), '2026-11-22')
  t.equal(todayIn('Pacific/Kiritimati', now), '2026-11-22')
  t.equal(todayIn('America/Los_Angeles', now), '2026-11-21')
})

t.test('days are added and counted across months, leap days and clock changes', async (t) => {
  t.equal(addDays('2026-01-31', 30), '2026-03-02')
  t.equal(addDays('2024-02-28', 1), '2024-02-29')
  t.equal(addDays('9999-12-01', 365), '9999-12-31')
  t.equal(daysBetween('2026-03-28', '2026-03-30'), 2)
  t.equal(daysBetween('2026-03-30', '2026-03-28'), -2)
})

t.test('a day begins at midnight in the time zone, or later if clocks skip midnight', async (t) => {
  const begins = (date: string, timezone: string) => startOfDay(date, timezone).toISOString()
  t.equal(begins('2026-03-08', 'UTC'), '2026-03-08T00:00:00.000Z')
  t.equal(begins('2026-12-01', 'Europe/Amsterdam'), '2026-11-30T23:00:00.000Z')
  t.equal(begins('2026-12-01', 'Pacific/Kiritimati'), '2026-11-30T10:00:00.000Z')
  t.equal(begins('2026-12-01', 'Pacific/Niue'), '2026-12-01T11:00:00.000Z')
  t.equal(begins('2026-12-01', 'Asia/Kathmandu'), '2026-11-30T18:15:00.000Z')
  // Cuba's clocks went from 0:00 to 1:00.
  t.equal(begins('2026-03-08', 'America/Havana'), '2026-03-08T05:00:00.000Z')
  // Cuba's clocks went from 1:00 to 0:00.
  t.equal(begins('2026-11-01', 'America/Havana'), '2026-11-01T04:00:00.000Z')
  // Samoa skipped a day.
  t.equal(begins('2011-12-30', 'Pacific/Apia'), '2011-12-30T10:00:00.000Z')
})

t.test('an instant requires an offset and a day that exists', async (t) => {
  t.equal(parseInstant('2026-11-21T10:15:00+02:00')?.toISOString(), '2026-11-21T08:15:00.000Z')
  t.equal(parseInstant('2026-11-21t10:15:00.123456z')?.toISOString(), '2026-11-21T10:15:00.123Z')
  for (const text of [
    '2026-11-21T10:15:00',
    '2026-11-21',
    '2026-02-30T10:15:00Z',
    '2026-11-21T24:00:00Z',
    '2026-11-21 10:15:00Z',
    '2026-11-21T10:15:60Z',
    '0000-01-01T00:00:00+01:00',
    '',
  ]) {
    t.equal(parseInstant(text), undefined, text)
  }
})

t.test('a time zone is an IANA name, not an offset', async (t) => {
  for (const name of ['Europe/Amsterdam', 'UTC', 'America/Argentina/Buenos_Aires', 'US/Pacific']) {
    t.equal(parseTimezone(name), name)
  }
  for (const name of ['+01:00', 'Europe/Atlantis', '', 'Europe/', '../etc']) {
    t.equal(parseTimezone(name), undefined, name)
  }
  // Regression: the case was kept, and programs in Java and Python reject such a name.
  t.equal(parseTimezone('europe/amsterdam'), 'Europe/Amsterdam')
  t.equal(parseTimezone('america/port-AU-prince'), 'America/Port-au-Prince')
})

t.test('an hour of a day is converted to its first instant', async (t) => {
  const at = (date: string, hour: number, timezone: string) =>
    instantOf(date, hour, timezone).toISOString()
  t.equal(at('2026-11-21', 8, 'Europe/Amsterdam'), '2026-11-21T07:00:00.000Z')
  t.equal(at('2026-07-01', 8, 'Europe/Amsterdam'), '2026-07-01T06:00:00.000Z')
  t.equal(at('2026-11-21', 18, 'Pacific/Kiritimati'), '2026-11-21T04:00:00.000Z')
  t.equal(at('2026-11-21', 8 + 20 / 60, 'Asia/Kathmandu'), '2026-11-21T02:35:00.000Z')
  t.equal(at('2026-11-01', 1, 'America/New_York'), '2026-11-01T05:00:00.000Z', '1:00 occurs twice')
})

// Regression: west of UTC, an hour that the clocks skip was converted to an hour before it.
t.test('an hour that clocks skip is converted to the hour after it', async (t) => {
  const at = (date: string, hour: number, timezone: string) =>
    instantOf(date, hour, timezone).toISOString()
  t.equal(at('2026-03-29', 2, 'Europe/Amsterdam'), '2026-03-29T01:00:00.000Z', 'clocks show 3:00')
  t.equal(at('2026-03-08', 2, 'America/New_York'), '2026-03-08T07:00:00.000Z', 'clocks show 3:00')
  t.equal(at('2026-03-08', 2.5, 'America/New_York'), '2026-03-08T07:30:00.000Z', 'they show 3:30')
})

// Regression: hours of the last day were invalid east of UTC, where they are in the year 10000 by local time.
t.test('the first and the last date have instants in every time zone', async (t) => {
  for (const timezone of ['Pacific/Kiritimati', 'Asia/Tokyo', 'UTC', 'Pacific/Niue']) {
    const last = instantOf('9999-12-31', 18, timezone)
    t.equal(last.getTime() - startOfDay('9999-12-31', timezone).getTime(), 18 * 3_600_000)
    t.ok(instantOf('0001-01-01', 18, timezone).getTime() < Date.parse('0001-01-02T18:00:00Z'))
  }
})

// Regression: a page with a hundred dates created a format for each date, which took 7 ms and 3 MB of memory.
t.test(
  'the date format of a time zone is cached, and the number of cached formats is limited',
  async (t) => {
    const formatIn = dateFormats('en-GB', { dateStyle: 'medium' })
    const format = formatIn('Europe/Amsterdam')
    t.equal(formatIn('Europe/Amsterdam'), format)
    t.equal(format.format(new Date('2026-11-24T23:30:00Z')), '25 Nov 2026')
    t.equal(calendarDateFormat('en-GB', { dateStyle: 'medium' })('2026-11-25'), '25 Nov 2026')
    // The names of time zones are case-insensitive, so clients can send any number of spellings.
    for (let n = 0; n < 2048; n += 1) formatIn(spellingOf('america/argentina/buenos_aires', n))
    t.not(formatIn('Europe/Amsterdam'), format)
  },
)

/** Returns the name with those letters in upper case that the bits of `n` select. */
function spellingOf(name: string, n: number): string {
  return [...name].map((letter, at) => ((n >> at) & 1 ? letter.toUpperCase() : letter)).join('')
}
