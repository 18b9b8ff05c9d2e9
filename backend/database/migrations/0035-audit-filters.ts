/** Indexes for the filters of the audit log, in the order of the log. */
import { index } from '../migrating/steps.ts'

export const steps = [
  index('create index audit_log_by_actor on audit_log (account_id, actor_label, created_at, id)'),
  index('create index audit_log_by_action on audit_log (account_id, action, created_at, id)'),
]
