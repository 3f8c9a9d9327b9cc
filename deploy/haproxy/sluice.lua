-- Sends a request to Sluice: http-request lua.sluice WHEN_GONE [USER]
--   WHEN_GONE   open: requests pass without limits while Sluice is unreachable; closed: 503
--   USER        a variable that contains the user, such as txn.user
-- The variable txn.sluice_plan contains the plan of the request, for rules with plans.
-- If Sluice denies the request, this action responds with the status, fields and body of Sluice. For
-- allowed requests it stores the RateLimit fields in txn.sluice_* for http-after-response. A request
-- that a rule with `mode: queue` allows waits for its turn.
--
-- In `global`: lua-load sluice.lua. If Sluice has another address, add before that line:
-- setenv SLUICE_URL http://HOST:PORT.
-- A backend `sluice` with a health check reports whether Sluice is reachable.

local url = (os.getenv("SLUICE_URL") or "http://127.0.0.1:8080") .. "/v1/auth"
local timeout_ms = 500

local fields = {
  ["ratelimit-policy"] = "txn.sluice_policy",
  ["ratelimit"] = "txn.sluice_rate",
  ["x-ratelimit-limit"] = "txn.sluice_limit",
  ["x-ratelimit-remaining"] = "txn.sluice_remaining",
  ["x-ratelimit-reset"] = "txn.sluice_reset",
}

-- Headers that are not forwarded: those of the connection and the body, and those that must come from
-- HAProxy and not from the client.
local dropped = {
  "connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "expect",
  "content-length", "transfer-encoding", "accept-encoding", "host", "forwarded", "x-real-ip",
  "x-original-method", "x-original-uri", "x-forwarded-for", "x-forwarded-host",
  "x-forwarded-method", "x-forwarded-uri", "x-user-id", "x-plan", "x-sluice-cost",
}

local function question(txn, user)
  local headers = {}
  for name, values in pairs(txn.http:req_get_headers()) do
    local list = {}
    for i = 0, #values do list[#list + 1] = values[i] end
    headers[name] = list
  end
  local host = headers["host"]
  for _, name in ipairs(dropped) do headers[name] = nil end
  headers["host"] = host
  -- No web page can set this header, so Sluice knows that the request is not from one.
  headers["sec-sluice-gateway"] = { "1" }
  headers["x-forwarded-method"] = { txn.f:method() }
  headers["x-forwarded-uri"] = { txn.f:pathq() }
  headers["x-forwarded-for"] = { tostring(txn.f:src()) }
  local name = user and txn:get_var(user)
  if name and name ~= "" then headers["x-user-id"] = { name } end
  local plan = txn:get_var("txn.sluice_plan")
  if plan and plan ~= "" then headers["x-plan"] = { plan } end
  return headers
end

local function unavailable(txn)
  local reply = txn:reply({ status = 503 })
  reply:add_header("content-type", "application/problem+json")
  reply:add_header("retry-after", "1")
  reply:set_body('{"title":"Service Unavailable","status":503,' ..
    '"detail":"the rate limiter cannot be reached"}')
  txn:done(reply)
end

local function deny(txn, answer)
  local reply = txn:reply({ status = answer.status })
  for _, name in ipairs({ "content-type", "retry-after" }) do
    local value = answer.headers[name]
    if value then reply:add_header(name, value[0]) end
  end
  reply:set_body(answer.body or "")
  txn:done(reply)
end

core.register_action("sluice", { "http-req" }, function(txn, when_gone, user)
  local answer
  if txn.f:nbsrv("sluice") > 0 then
    answer = core.httpclient():get({
      url = url, headers = question(txn, user), timeout = timeout_ms })
  end
  local status = answer and answer.status or 0
  if status == 0 or status >= 500 then  -- HAProxy itself returns 503 or 504 if Sluice is unreachable
    if when_gone ~= "open" then unavailable(txn) end
    return
  end
  for name, variable in pairs(fields) do
    local value = answer.headers[name]
    if value then txn:set_var(variable, value[0]) end
  end
  if status >= 300 then return deny(txn, answer) end
  local delay_ms = answer.headers["x-sluice-delay"]  -- of a rule with `mode: queue`
  if delay_ms then core.msleep(tonumber(delay_ms[0])) end
end, 2)
