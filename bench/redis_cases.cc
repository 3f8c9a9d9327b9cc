#include "bench/redis_cases.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>

#include "bench/workload.h"
#include "stores/redis/script/format.h"

namespace sluice::bench {
namespace {

constexpr std::string_view kTimeDigits = "0000000000.000000";  // seconds, to the microsecond
constexpr std::string_view kUniqueDigits = "000000000000";

std::string script_text(const std::string& name) {
  const std::string path = std::string(SLUICE_BENCH_DIR) + "/redis/" + name;
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "redis_bench: cannot read %s\n", path.c_str());
    std::exit(1);
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_digits(char* end, std::uint64_t value, std::size_t digits) {
  for (; digits != 0; --digits, value /= 10) *--end = static_cast<char>('0' + value % 10);
}

void write_time(char* to) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  write_digits(to + 10, static_cast<std::uint64_t>(now.tv_sec), 10);
  write_digits(to + 17, static_cast<std::uint64_t>(now.tv_nsec / 1000), 6);
}

constexpr std::uint64_t kApis = 10;
constexpr std::uint64_t kGlobalPerSecond = kPerSecond * kBenchKeys;
constexpr std::uint64_t kApiPerSecond = kGlobalPerSecond / kApis;

}  // namespace

std::string note_of(const Told& base, const Told& own) {
  char note[96];
  std::snprintf(note, sizeof(note), "server us %.2f / %.2f, denied %.1f %% / %.1f %%",
                own.server_us_each(), base.server_us_each(), own.denied_percent(),
                base.denied_percent());
  return note;
}

std::string key_of(std::uint64_t number) {
  char key[kKeyBytes];
  write_key(key, number);
  return {key, sizeof(key)};
}

std::uint64_t random_key(std::size_t request, std::size_t keys) {
  return (request * 0x9E37'79B9'7F4A'7C15u >> 32) % keys;
}

void Case::operator()(std::size_t first, std::size_t count) {
  const double before = server_.cpu_ns();
  (*load_)(first, count);
  told.server_ns += server_.cpu_ns() - before;
  told.asked += count;
}

OwnCase::OwnCase(const RedisServer& server, const std::string& prefix, const Fill& fill,
                 Action action, By by)
    : Case(server), by_(by) {
  struct Buffer final : redis::Command {
    void done(const redis::Answer&) noexcept override {}
  } command;
  const redis::RequestOptions options{.prefix = prefix, .uses_module = by == By::kModule};
  RedisLink link(server.socket());
  std::string known;
  for (std::size_t i = 0; i < kRequests; ++i) {
    fill(i, charges_);
    if (!plan_.begin(options, action, charges_, std::nullopt) || plan_.parts() != 1) {
      std::fprintf(stderr, "redis_bench: a request that cannot be asked\n");
      std::exit(1);
    }
    plan_.write(0, command);
    if (by == By::kModule) {
      plan_.append_for_module(0, requests_.emplace_back());
    } else {
      if (known != command.script->sha1) {
        known = link.load_script(std::string(command.script->text));
      }
      requests_.push_back("*" + std::to_string(command.elements + 2) +
                          "\r\n$7\r\nEVALSHA\r\n$40\r\n" + std::string(command.script->sha1) +
                          "\r\n" + command.tail);
    }
    if (charges_[0].permit == nullptr) continue;
    const PermitId::Bytes id = charges_[0].permit->bytes();
    id_at_.push_back(requests_.back().find(
        {reinterpret_cast<const char*>(id.data()), redis::format::kHoldIdSize}));
    if (id_at_.back() == std::string::npos) {
      std::fprintf(stderr, "redis_bench: a request without its id\n");
      std::exit(1);
    }
  }
  each_.resize(charges_.size());
  load_ = std::make_unique<RedisLoad>(
      server.socket(), [this](std::size_t i, std::string& out) { write(i % kRequests, out); },
      [this](const redis::Reply& reply) { return read(reply); });
}

void OwnCase::write(std::size_t request, std::string& out) {
  const std::size_t at = out.size();
  out += requests_[request];
  if (id_at_.empty()) return;
  const std::uint64_t number = ++next_id_;
  const std::string_view text(reinterpret_cast<const char*>(&number), sizeof(number));
  const PermitId::Bytes id = PermitId::named(text).bytes();
  std::copy_n(id.begin(), redis::format::kHoldIdSize,
              out.begin() + static_cast<std::ptrdiff_t>(at + id_at_[request]));
}

bool OwnCase::read(const redis::Reply& reply) {
  const redis::Plan::Read what = plan_.read(0, reply, by_ == By::kModule);
  if (what == redis::Plan::Read::kMalformed) return false;
  Decision all;
  plan_.answer(each_, all);
  if (all.late || all.repeated) return false;  // ids of their own, and each hold was open
  told.denied += !all.allowed();
  told.remaining = all.remaining;
  return true;
}

BaselineCase::BaselineCase(const RedisServer& server, const std::string& script, const Calls& calls)
    : Case(server) {
  const std::string sha1 = RedisLink(server.socket()).load_script(script_text(script));
  for (std::size_t i = 0; i < kRequests; ++i) {
    auto& request = requests_.emplace_back();
    for (const Call& call : calls(i)) {
      RespCommand command;
      command.add("EVALSHA").add(sha1).add("1").add(call.key);
      for (const std::string& argument : call.before) command.add(argument);
      command.add(kTimeDigits);
      for (const std::string& argument : call.after) command.add(argument);
      if (call.unique) command.add(kUniqueDigits);
      Prepared& made = request.emplace_back();
      made.text = command.text();
      made.time_at = made.text.find(kTimeDigits);
      if (call.unique) made.unique_at = made.text.size() - 2 - kUniqueDigits.size();
    }
  }
  load_ = std::make_unique<RedisLoad>(
      server.socket(), [this](std::size_t i, std::string& out) { write(i % kRequests, out); },
      [this](const redis::Reply& reply) { return read(reply); }, requests_[0].size());
}

void BaselineCase::write(std::size_t request, std::string& out) {
  for (const Prepared& call : requests_[request]) {
    const std::size_t at = out.size();
    out += call.text;
    write_time(&out[at + call.time_at]);
    if (call.unique_at != 0) {
      write_digits(&out[at + call.unique_at] + kUniqueDigits.size(), ++next_unique_,
                   kUniqueDigits.size());
    }
  }
}

bool BaselineCase::read(const redis::Reply& reply) {
  if (reply.type != redis::Reply::kArray || reply.count != 2) return false;
  told.denied += reply[0].integer == 0;
  told.remaining = static_cast<std::uint64_t>(reply[1].integer);
  return true;
}

CommandCase::CommandCase(const RedisServer& server, const Words& words) : Case(server) {
  for (std::size_t i = 0; i < kRequests; ++i) {
    RespCommand command;
    for (const std::string& word : words(i)) command.add(word);
    requests_.push_back(command.text());
  }
  load_ = std::make_unique<RedisLoad>(
      server.socket(), [this](std::size_t i, std::string& out) { out += requests_[i % kRequests]; },
      [this](const redis::Reply& reply) {
        const bool is_array = reply.type == redis::Reply::kArray && reply.count > 0;
        if (is_array) told.denied += reply[0].integer == 1;
        return is_array || reply.type == redis::Reply::kInteger;
      });
}

std::unique_ptr<OwnCase> three_limits(const RedisServer& server, OwnCase::By by) {
  const std::chrono::seconds s{1};
  const Limit all = token_bucket(kGlobalPerSecond).per(s);
  const Limit api = token_bucket(kApiPerSecond).per(s);
  const Limit user = token_bucket(kPerSecond).per(s);
  std::string api_key;
  std::string user_key;
  return std::make_unique<OwnCase>(
      server, by == OwnCase::By::kModule ? "module-three:" : "own-three:",
      [&](std::size_t i, std::vector<Charge>& charges) {
        api_key = "api:" + key_of(random_key(i, kApis));
        user_key = key_of(random_key(i, kBenchKeys));
        charges = {{.key = "all", .limit = all},
                   {.key = api_key, .limit = api},
                   {.key = user_key, .limit = user}};
      },
      Verb::kTake, by);
}

std::unique_ptr<BaselineCase> three_common_calls(const RedisServer& server) {
  const auto call = [](const std::string& key, std::uint64_t limit) {
    return BaselineCase::Call{.key = "common-three:" + key,
                              .before = {std::to_string(limit), std::to_string(limit)},
                              .after = {"1"}};
  };
  return std::make_unique<BaselineCase>(server, "token_bucket.lua", [&](std::size_t i) {
    return std::vector<BaselineCase::Call>{
        call("all", kGlobalPerSecond), call("api:" + key_of(random_key(i, kApis)), kApiPerSecond),
        call(key_of(random_key(i, kBenchKeys)), kPerSecond)};
  });
}

}  // namespace sluice::bench
