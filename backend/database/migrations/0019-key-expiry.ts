/** Keys may expire, may be restricted to client addresses, and may be replaced by another key. */
import { index, transaction } from '../migrating/steps.ts'

const COLUMNS = ['expires_at', 'expired_at', 'expiry_due_at', 'allowed_addresses', 'replaced_by']

export const steps = [
  transaction(...COLUMNS.map((name) => `alter table api_keys add column ${name} text`)),
  index(
    'create index api_keys_expiry_due on api_keys (expiry_due_at) where expiry_due_at is not null',
  ),
]
