#include "bench/redis_cases.h"

#include <hiredis/hiredis.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>

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

}  // namespace

void Case::operator()(std::size_t first, std::size_t count) {
  const double before = server_.cpu_ns();
  (*load_)(first, count);
  told.server_ns += server_.cpu_ns() - before;
  told.asked += count;
}

OwnCase::OwnCase(const RedisServer& server, const std::string& prefix, const Fill& fill,
                 Action action)
    : Case(server) {
  struct Buffer final : redis::Command {
    void done(const redis::Answer&) noexcept override {}
  } command;
  const redis::PlanOptions options{.prefix = prefix};
  RedisLink link(server.socket());
  std::string known;
  for (std::size_t i = 0; i < kRequests; ++i) {
    fill(i, charges_);
    if (!plan_.begin(options, action, charges_, std::nullopt) || plan_.parts() != 1) {
      std::fprintf(stderr, "redis_bench: a request that cannot be asked\n");
      std::exit(1);
    }
    plan_.write(0, command);
    if (known != command.script->sha1) known = link.load_script(std::string(command.script->text));
    requests_.push_back("*" + std::to_string(command.elements + 2) +
                        "\r\n$7\r\nEVALSHA\r\n$40\r\n" + std::string(command.script->sha1) +
                        "\r\n" + command.tail);
  }
  each_.resize(charges_.size());
  load_ = std::make_unique<RedisLoad>(
      server.socket(), [this](std::size_t i, std::string& out) { out += requests_[i % kRequests]; },
      [this](const redisReply& reply) { return read(reply); });
}

bool OwnCase::read(const redisReply& reply) {
  const redis::Plan::Read what = plan_.read(0, reply);
  if (what == redis::Plan::Read::kMalformed) return false;
  Decision all;
  plan_.answer(each_, all);
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
      [this](const redisReply& reply) { return read(reply); }, requests_[0].size());
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

bool BaselineCase::read(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_ARRAY || reply.elements != 2) return false;
  told.denied += reply.element[0]->integer == 0;
  told.remaining = static_cast<std::uint64_t>(reply.element[1]->integer);
  return true;
}

}  // namespace sluice::bench
