/** `npm run gateway`, or `node gateway/main.ts`: starts the gateway with its V8 flags. */

/**
 * V8 reads these only when a process starts. `docs/performance.md` says what each is worth.
 *
 * - A young generation of 16 MB: with Node's own size, calls in progress are promoted to the old one.
 * - The old generation is collected after it has grown by 15 %, so that memory stays small.
 * - Collecting on the main thread alone: several threads would compete with it for one core.
 */
const V8_FLAGS = ['--max-semi-space-size=16', '--heap-growing-percent=15', '--single-threaded-gc']

const isFlagged = V8_FLAGS.every((flag) => process.execArgv.includes(flag))
// Replaces the program within this process, which keeps its pid, its signals and its standard streams.
// Where the system cannot do that (Windows) the gateway runs without the flags, only slower. Workers of
// `cluster` inherit the flags.
if (!isFlagged && process.execve !== undefined && process.send === undefined) {
  const command = [...V8_FLAGS, ...process.execArgv, ...process.argv.slice(1)]
  process.execve(process.execPath, [process.execPath, ...command], process.env)
}
await import('./gateway.ts')
