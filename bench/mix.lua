-- Sends a list of ready-made requests, separated by zero bytes, in a circle, and prints the result as JSON.
-- Each of several threads has the next address of $ADDRESSES, and a file of its own: the name and .0, .1, ...
local requests, position = {}, 0
local addresses, threads = {}, 0
for address in string.gmatch(os.getenv("ADDRESSES") or "", "%S+") do
  addresses[#addresses + 1] = address
end

function setup(thread)
  thread:set("number", threads)
  if #addresses > 0 then
    thread.addr = assert(wrk.lookup(addresses[threads % #addresses + 1], wrk.port)[1])
  end
  threads = threads + 1
end

function init(args)
  local file = assert(io.open(#addresses > 0 and args[1] .. "." .. number or args[1], "rb"))
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
