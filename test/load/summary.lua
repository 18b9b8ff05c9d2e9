-- Prints the measurements of wrk as JSON in the last line of the output, which wrk.ts reads.
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"calls":%d,"seconds":%.6f,"failed":%d,"p50_ms":%.3f,"p99_ms":%.3f}\n',
    summary.requests, summary.duration / 1e6,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
