/** Indexes for retention by age: of notices, and of the mails that contain them. */
import { index } from '../migrating/steps.ts'

export const steps = [
  index('create index mail_outbox_by_age on mail_outbox (created_at)'),
  index('create index notices_by_age on notices (created_at)'),
]
