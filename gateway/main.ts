/** `npm run gateway`, or `node gateway/main.ts`: starts the gateway with its V8 flags. */

/**
 * V8 reads these flags only when a process starts. `docs/decisions/0009-v8-flags.md` has the effect of each.
 *
 * - The young generation may use 16 MB for new objects. With less, which is Node's default if the machine has little
 *   memory, objects of calls in progress are promoted to the old generation.
 * - The old generation is collected when it has grown by 15 %, which keeps memory use low.
 * - Garbage is collected on the main thread only: a gateway process has one core, for which other threads would compete
 *   with the main thread.
 * - `gc` is exposed: `shared/process/buffers.ts` calls it to free unused buffers earlier than V8 would.
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
