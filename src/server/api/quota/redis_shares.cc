// The shares of servers in Redis.

#include <utility>

#include "base/quoted.h"
#include "server/api/quota/quota_server.h"
#include "server/net/fiber.h"
#include "stores/redis/client/command.h"

namespace sluice::server {
namespace {

// KEYS[1]: the text, a line "SERVER*WEIGHT ASKED KEEPS UNTIL" for each server: the share it asks
// for, the largest that it may use, and until when, in milliseconds; without a weight, that is
// 1024. ARGV: the server, what it asks for, what is in use there, the time to live, the whole, the
// weight, and the weight if it asked for all. Returns "PART FAIR MOST": the share to divide, what
// is fair, and what would be fair if it asked for all. A server keeps what is in use until it is
// lower, so that the sum of what they keep is at most the whole.
constexpr std::string_view kShareText = R"(local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held, whole = tonumber(ARGV[3]), tonumber(ARGV[5])
local own = {ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[6])}
local all, lines, kept, last = {own}, {}, 0, now
for line in string.gmatch(redis.call('GET', KEYS[1]) or '', '[^\n]+') do
  local server, wants, keeps, till = string.match(line, '^(%S+) (%d+) (%d+) (%d+)$')
  local name, heavy = string.match(server or '', '^([^*]+)%*?(%d*)$')
  if name and name ~= ARGV[1] and tonumber(till) > now then
    all[#all + 1] = {name, tonumber(wants), tonumber(heavy) or 1024}
    lines[#lines + 1] = line
    kept = kept + tonumber(keeps)
    last = math.max(last, tonumber(till))
  end
end
local function fair()
  local left, weights, fair = whole, 0, 0
  for _, one in ipairs(all) do
    one[4] = one[2] / one[3]
    weights = weights + one[3]
  end
  table.sort(all, function(a, b) return a[4] < b[4] or a[4] == b[4] and a[1] < b[1] end)
  for _, one in ipairs(all) do
    local part = math.min(one[2], left, math.floor(left * one[3] / weights))
    left, weights = left - part, weights - one[3]
    if one == own then fair = part end
  end
  return fair
end
local part = fair()
local share = math.max(math.min(part, whole - kept), 0)
local till = now + tonumber(ARGV[4])
lines[#lines + 1] = string.format('%s*%.0f %.0f %.0f %.0f', ARGV[1], own[3], own[2],
  math.max(share, held), till)
local text, ms = table.concat(lines, '\n'), math.max(last, till) - now
local said = redis.pcall('SET', KEYS[1], text, 'PX', ms)
if said.err then
  -- If the server's memory is full, it executes a write after one that needs no memory.
  if redis.call('PEXPIRE', KEYS[1], ms) == 0 then return said end
  redis.call('SET', KEYS[1], text, 'PX', ms)
end
own[2], own[3] = whole, tonumber(ARGV[7])
return string.format('%.0f %.0f %.0f', share, part, fair())
)";
constexpr redis::Script kShare{"quota_share", kShareText,
                               "71109d2870b2a312cac471c17e10e94aca7ad4b5"};

// Reads "PART FAIR MOST".
std::optional<QuotaShare> read_share(std::string_view text) {
  const auto part = base::read_number<std::uint64_t>(base::take_until(text, ' '));
  const auto fair = base::read_number<std::uint64_t>(base::take_until(text, ' '));
  const auto most = base::read_number<std::uint64_t>(text);
  return part && fair && most ? std::optional(QuotaShare{*part, *fair, *most}) : std::nullopt;
}

}  // namespace

ClaimShare claim_in_redis(std::function<redis::Client*()> client, std::string prefix,
                          std::string server) {
  return [client = std::move(client), prefix = std::move(prefix), server = std::move(server)](
             const Charge& counter, const quota::Claim& claim, std::uint64_t most_weight,
             std::uint64_t held, Duration ttl) -> std::optional<QuotaShare> {
    redis::Client* const to = client();
    if (to == nullptr || net::current_fiber() == nullptr) return std::nullopt;
    const std::string key =
        prefix + "q{" + std::string(counter.tag) + "}" + std::string(counter.key);
    net::FiberWait wait;
    std::optional<QuotaShare> share;
    redis::AskCommand command([&](const redis::Answer& answer) {
      if (answer.failure == redis::Failure::kNone) share = read_share(answer.reply->string());
      wait.finish();
    });
    command.slot = redis::slot_of(key);
    command.script = &kShare;
    command.append(std::uint64_t{1});
    command.append(key);
    command.append(server);
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(ttl).count();
    for (const std::uint64_t number : {claim.asked, held, static_cast<std::uint64_t>(milliseconds),
                                       quota::kWhole, claim.weight, most_weight}) {
      command.append(number);
    }
    to->submit(command);
    wait.wait();
    return share;
  };
}

}  // namespace sluice::server
