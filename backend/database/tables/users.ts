/** Rows of people and their logins. */

export interface UserRow {
  id: string
  account_id: string
  /** Lower case; unique over all accounts. */
  email: string
  role: 'admin' | 'member'
  status: 'active' | 'deactivated'
  /** argon2id in PHC string format. */
  password_hash: string
  created_at: string
  updated_at: string
}

/** A login. The token itself is in the browser alone. */
export interface SessionRow {
  /** SHA-256, base64url. */
  token_hash: string
  user_id: string
  /** The user's when the token was made: another one since means that the token must change. */
  role: UserRow['role']
  /** What the next page says once, as JSON. */
  flash: string | null
  created_at: string
  last_seen_at: string
  /** Whatever happens in between. */
  expires_at: string
}

/** Guesses at passwords, by e-mail address and by where they come from. */
export interface LoginGuessesRow {
  /** `email:` and a SHA-256, or `address:` and an IP address or network. */
  subject: string
  guesses: number
  window_ends_at: string
  blocked_until: string
}

export interface InvitationRow {
  id: string
  account_id: string
  email: string
  role: UserRow['role']
  /** SHA-256, base64url. */
  code_hash: string
  invited_by: string
  created_at: string
  expires_at: string
  /** When it was accepted, replaced or withdrawn. */
  ended_at: string | null
}

export interface UserTables {
  users: UserRow
  sessions: SessionRow
  login_guesses: LoginGuessesRow
  invitations: InvitationRow
}
