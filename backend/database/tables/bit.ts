/** A boolean column. SQLite has no booleans, so both databases store a number. */
export type Bit = 0 | 1
