/** `npm run gateway`, or `node gateway/main.ts`: starts the gateway with its V8 flags. */

/**
 * V8 reads these flags only when a process starts. `docs/decisions/0009-v8-flags.md` explains each. `gc` is exposed for
 * `shared/process/buffers.ts`.
 */
const V8_FLAGS = [
  '--max-semi-space-size=16',
  '--heap-growing-percent=15',
  '--single-threaded-gc',
  '--expose-gc',
]

const hasFlags = V8_FLAGS.every((flag) => process.execArgv.includes(flag))
// `execve` starts Node again with the flags in the same process, which keeps its pid and its standard
// streams. Where `execve` does not exist (on Windows), the gateway runs without the flags, and is slower.
// Workers of `cluster`, which have `process.send`, inherit the flags.
if (!hasFlags && process.execve !== undefined && process.send === undefined) {
  const command = [...V8_FLAGS, ...process.execArgv, ...process.argv.slice(1)]
  process.execve(process.execPath, [process.execPath, ...command], process.env)
}
await import('./gateway.ts')
