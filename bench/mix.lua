-- Sends a list of ready-made requests, separated by zero bytes, in a circle, and prints the result as JSON.
local requests, position = {}, 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  for text in string.gmatch(file:read("*a"), "[^%z]+") do
    requests[#requests + 1] = text
  end
  file:close()
end

function request()
  position = position % #requests + 1
  return requests[position]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "microseconds": %d, "p50": %d, "p99": %d, "refused": %d, "broken": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
