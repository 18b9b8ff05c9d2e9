import { Problem } from '../../shared/contract/problem.ts'
import { removeSecondFactors } from '../sessions/second-factor.ts'
import { checkPasswordLength } from '../users/password-rules.ts'
import { createPasswords } from '../users/passwords.ts'
import { createUser, findUserByEmail, ROLES } from '../users/users.ts'
import { ACCOUNT, type Command, type Context, defineCommand, UsageError } from './command.ts'
import { readPassword } from './input/password.ts'

export const userCommands: readonly Command[] = [
  defineCommand({
    name: 'users create',
    summary: 'Create a user who can log in to Settings.',
    arguments: [],
    options: {
      account: ACCOUNT,
      email: {
        type: 'string',
        required: true,
        value: 'E',
        description: 'The e-mail address that the user logs in with.',
      },
      role: {
        type: 'string',
        required: true,
        value: 'ROLE',
        description: `The role: ${ROLES.join(' or ')}.`,
      },
      'password-stdin': {
        type: 'boolean',
        description:
          'Read the password, of at least 8 characters, from standard input. Without this option, the command requests it on the terminal.',
      },
      password: {
        type: 'string',
        value: 'P',
        description:
          'The password. Other users of the machine can see it in the list of processes, and the shell stores it in its history.',
      },
    },
    async run({ account, email, role: roleName, ...source }, context) {
      const role = ROLES.find((candidate) => candidate === roleName)
      if (role === undefined) throw new UsageError(`--role must be ${ROLES.join(' or ')}`)
      const password = await passwordFrom(source, context)
      checkPasswordLength(password)
      const passwordHash = await createPasswords().hash(password)
      const user = await context.performAction((tx, actionContext) =>
        createUser(tx, { accountId: account, email, role, passwordHash }, actionContext),
      )
      return {
        json: {
          id: user.id,
          account_id: user.account_id,
          email: user.email,
          role: user.role,
          created_at: user.created_at,
        },
        text: `Created user ${user.id}, ${user.email}, ${user.role} of account ${user.account_id}.`,
      }
    },
  }),

  defineCommand({
    name: 'users disable-second-factor',
    summary:
      'Remove the authenticator app and the passkeys of a user who has lost them. The user then logs in with the password alone.',
    arguments: ['EMAIL'],
    options: {},
    async run({ EMAIL }, context) {
      const database = await context.database()
      const user = await findUserByEmail(database.read, EMAIL)
      if (user === undefined)
        throw new Problem('not_found', `There is no user with the e-mail address ${EMAIL}.`)
      await context.performAction((tx, actionContext) =>
        removeSecondFactors(tx, user.id, actionContext),
      )
      return {
        json: { id: user.id, email: user.email, second_factor: false },
        text: `${user.email} now logs in with the password alone.`,
      }
    },
  }),
]

interface PasswordSource {
  readonly password: string | undefined
  readonly 'password-stdin': boolean
}

function passwordFrom(source: PasswordSource, context: Context): string | Promise<string> {
  const { password, 'password-stdin': readsStdin } = source
  if (password === undefined) {
    if (readsStdin || context.stdin().isTTY) return readPassword(context)
    // Without this error, a script that passes no password would wait for input forever.
    throw new UsageError(
      'Without a terminal, the command cannot request the password: use --password-stdin',
    )
  }
  if (readsStdin) throw new UsageError('Use either --password or --password-stdin')
  return password
}
