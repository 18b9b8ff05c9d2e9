import { Problem } from '../../shared/contract/problem.ts'
import { OPERATOR } from '../accounts/audit.ts'
import { disableSecondFactor } from '../sessions/second-factor.ts'
import { createPasswords } from '../users/passwords.ts'
import { checkPassword, createUser, findUserByEmail, ROLES } from '../users/users.ts'
import { type Command, defineCommand, UsageError } from './command.ts'

export const userCommands: readonly Command[] = [
  defineCommand({
    name: 'users create',
    summary: 'Create a user who can log in to Settings.',
    arguments: [],
    options: {
      account: { type: 'string', required: true, value: 'ID', description: 'The account.' },
      email: { type: 'string', required: true, value: 'E', description: 'What they log in with.' },
      role: { type: 'string', required: true, value: 'R', description: ROLES.join(' or ') },
      password: {
        type: 'string',
        required: true,
        value: 'P',
        description: '8 characters or more.',
      },
    },
    async run({ account, email, role: roleName, password }, context) {
      const role = ROLES.find((candidate) => candidate === roleName)
      if (role === undefined) throw new UsageError(`--role is ${ROLES.join(' or ')}`)
      checkPassword(password)
      const passwordHash = await createPasswords().hash(password)
      const user = await (await context.database()).transaction((tx) =>
        createUser(
          tx,
          { accountId: account, email, role, passwordHash },
          { actor: OPERATOR, now: context.now },
        ),
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
      'Let a user who lost their app and their recovery codes log in with the password alone.',
    arguments: ['EMAIL'],
    options: {},
    async run({ EMAIL }, context) {
      const database = await context.database()
      const user = await findUserByEmail(database.read, EMAIL)
      if (user === undefined) throw new Problem('not_found', `Nobody logs in as ${EMAIL}.`)
      const act = { actor: OPERATOR, now: context.now }
      await database.transaction((tx) => disableSecondFactor(tx, user.id, act))
      return {
        json: { id: user.id, email: user.email, second_factor: false },
        text: `${user.email} logs in with the password alone.`,
      }
    },
  }),
]
