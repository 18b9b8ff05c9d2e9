export interface UserRow {
  id: string
  account_id: string
  /** In lower case; unique across all accounts. */
  email: string
  role: 'admin' | 'member'
  status: 'active' | 'deactivated'
  /** argon2id in PHC string format. */
  password_hash: string
  /** The encrypted secret of the authenticator app. It is in use only if `totp_enabled_at` is set. */
  totp_secret: string | null
  totp_enabled_at: string | null
  /** The time step of the last accepted code. Codes of this step and of earlier steps are rejected. */
  totp_last_step: number | null
  created_at: string
  updated_at: string
}

/** A login. Only the browser has the token itself. */
export interface SessionRow {
  /** SHA-256, base64url. */
  token_hash: string
  user_id: string
  /** The user's role when the token was issued. After a change of the role, the next request replaces the token. */
  role: UserRow['role']
  /**
   * The name of the message that the next page shows once, or JSON with the name and the request that the Undo button
   * sends.
   */
  flash: string | null
  created_at: string
  last_seen_at: string
  /** Fixed at login; activity does not extend it. */
  expires_at: string
  /** The IP address of the login; `user_agent` is the text that the browser sent. */
  address: string | null
  user_agent: string | null
  /**
   * When the user logged in or, if later, last entered the password during the session. Null only in sessions that a
   * version without this column began: `created_at` then applies.
   */
  confirmed_at: string | null
  /** The time until which the second factor may be entered; null if the login is complete. */
  pending_until: string | null
}

/** A code that can be used once instead of the authenticator app or the passkey. */
export interface RecoveryCodeRow {
  user_id: string
  /** SHA-256, base64url. */
  code_hash: string
  created_at: string
  used_at: string | null
}

/** A passkey, which proves both that its device is present and that its owner unlocked it. */
export interface PasskeyRow {
  id: string
  account_id: string
  user_id: string
  name: string
  /** Chosen by the authenticator; base64url; unique across all accounts. */
  credential_id: string
  /** A COSE key, base64url. */
  public_key: string
  /** How often the authenticator was used, or 0 if it does not count. */
  sign_count: number
  /** How browsers reach the authenticator, as a JSON list. */
  transports: string
  created_at: string
  last_used_at: string | null
}

/** A challenge to which no response has arrived yet. */
export interface PasskeyChallengeRow {
  /** SHA-256, base64url. */
  challenge_hash: string
  /** SHA-256 of the values that bind the challenge to one browser and one purpose, base64url. */
  browser_hash: string
  /** The only user whose response is accepted; null allows any user. */
  user_id: string | null
  created_at: string
  expires_at: string
}

/** A browser in which a user has logged in. A cookie identifies the browser. */
export interface KnownBrowserRow {
  /** SHA-256, base64url. */
  token_hash: string
  user_id: string
  account_id: string
  created_at: string
  last_login_at: string
}

/** A request for a link that sets a new password. */
export interface PasswordResetRow {
  id: string
  /**
   * The entered address, trimmed and in lower case. The row is deleted soon if no link is sent, e.g. because there is
   * no such user.
   */
  email: string
  user_id: string | null
  /** SHA-256, base64url. */
  code_hash: string
  created_at: string
  expires_at: string
  /** When the user was found and the notice with the link was recorded. */
  handled_at: string | null
  /** When the user set a new password with this link or another one, or changed the password in Settings. */
  ended_at: string | null
}

/** Guesses at passwords, codes and passkeys, and requests that are limited like guesses, such as password resets. */
export interface LoginGuessesRow {
  /**
   * What the row counts. For guesses about a user: the purpose and a SHA-256, e.g. `email:…` for logins with an e-mail
   * address, or `second_factor:…` for codes of a user. For guesses from an IP address or network: `address:` and this
   * address or network, not hashed.
   */
  subject: string
  guesses: number
  window_ends_at: string
  /** Further guesses are rejected until this time. */
  blocked_until: string
}

export interface InvitationRow {
  id: string
  account_id: string
  email: string
  role: UserRow['role']
  /** SHA-256, base64url. */
  code_hash: string
  /** The e-mail address of the Admin, or `operator`. */
  invited_by: string
  created_at: string
  expires_at: string
  /** When the invitation was accepted, replaced or withdrawn. */
  ended_at: string | null
}

export interface UserTables {
  users: UserRow
  sessions: SessionRow
  login_guesses: LoginGuessesRow
  invitations: InvitationRow
  password_resets: PasswordResetRow
  recovery_codes: RecoveryCodeRow
  known_browsers: KnownBrowserRow
  passkeys: PasskeyRow
  passkey_challenges: PasskeyChallengeRow
}
