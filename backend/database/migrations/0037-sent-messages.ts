/** An index of sent messages, for the filters `sent_since` and `sent_before`. */
import { index } from '../migrating/steps.ts'

export const steps = [
  index(`create index messages_by_sending on messages (account_id, sent_at, id)
    where sent_at is not null`),
]
