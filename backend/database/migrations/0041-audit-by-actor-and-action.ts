/** An index for reading a person's actions of one kind, in the order of the audit log. */
import { index } from '../migrating/steps.ts'

export const steps = [
  index(`create index audit_log_by_actor_and_action on audit_log
    (account_id, actor_label, action, created_at, id)`),
]
