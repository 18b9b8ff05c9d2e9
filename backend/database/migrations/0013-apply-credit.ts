/** An account setting: whether the unallocated money of new payments is allocated automatically. */
import { column } from '../migrating/steps.ts'

export const steps = [
  column(
    'accounts',
    'apply_credit',
    `text not null default 'manual'`,
    `apply_credit in ('manual', 'oldest_first')`,
  ),
]
