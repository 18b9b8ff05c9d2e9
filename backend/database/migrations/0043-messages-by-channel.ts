/**
 * An index of the messages that are not emails, for the filter `channel`. It is empty while all messages are emails.
 */
import { index } from '../migrating/steps.ts'

export const steps = [
  index(`create index messages_by_channel on messages (account_id, channel, created_at, id)
    where channel <> 'email'`),
]
