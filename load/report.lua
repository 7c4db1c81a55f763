-- Prints what wrk measured on one line that a script can read:
-- requests, seconds, anything that was not a 2xx or 3xx in time, median and 99th percentile in ms.
done = function(summary, latency)
  local e = summary.errors
  local bad = e.connect + e.read + e.write + e.status + e.timeout
  io.write(string.format("figures %d %.3f %d %.3f %.3f\n", summary.requests,
    summary.duration / 1e6, bad, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
