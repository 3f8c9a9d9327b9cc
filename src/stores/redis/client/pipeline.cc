#include "stores/redis/client/pipeline.h"

#include <algorithm>

namespace sluice::redis {
namespace {

constexpr std::string_view kUnknownScript = "NOSCRIPT";
constexpr std::string_view kAsking = "*1\r\n$6\r\nASKING\r\n";
constexpr std::string_view kEvalSha = "$7\r\nEVALSHA\r\n";
constexpr std::string_view kEval = "$4\r\nEVAL\r\n";
// Releases a larger buffer, which a burst has needed.
constexpr std::size_t kKeptOutput = 1 << 20;

bool says_unknown_script(const redisReply& reply) noexcept {
  return std::string_view(reply.str, reply.len).starts_with(kUnknownScript);
}

}  // namespace

bool Pipeline::submit(Command& command, bool asking) {
  if (slots_.size() >= max_pending_) return false;
  push({.command = &command,
        .deadline = command.deadline,
        .form = form_of(command),
        .asking = asking});
  return true;
}

Pipeline::Form Pipeline::form_of(const Command& command) noexcept {
  if (command.script == nullptr) return Form::kPlain;
  const bool has_module = module_ == Module::kAsked || module_ == Module::kPresent;
  if (command.keeps_order && has_module) return Form::kText;
  if (command.for_module.empty() || module_ == Module::kAsked || module_ == Module::kAbsent) {
    return Form::kHash;
  }
  if (module_ == Module::kUnknown) module_ = Module::kAsked;
  return Form::kModule;
}

bool Pipeline::note_module(const redisReply& reply) noexcept {
  const std::string_view text(reply.str, reply.len);
  const bool is_error = reply.type == REDIS_REPLY_ERROR;
  const bool is_unknown = is_error && (text.starts_with("ERR ") || text.starts_with("NOPERM "));
  if (is_unknown) module_ = Module::kAbsent;
  if (!is_error && module_ == Module::kAsked) module_ = Module::kPresent;
  // A script changes counters that exist even if the memory is full.
  return is_unknown || (is_error && text.starts_with("OOM "));
}

void Pipeline::push(Slot slot) {
  if (live_ == 0) {
    unordered_ = false;
    dead_ = slots_.size();
  } else if (slot.deadline < latest_) {
    unordered_ = true;
  }
  latest_ = live_ == 0 ? slot.deadline : std::max(latest_, slot.deadline);
  ++live_;
  if (open_) write(slot);
  slots_.push_back(slot);
}

void Pipeline::open() {
  if (open_) return;
  open_ = true;
  dead_ = 0;
  for (std::size_t left = slots_.size(); left > 0; --left) {
    Slot slot = slots_.pop_front();
    if (slot.command == nullptr) continue;  // ended while it waited
    write(slot);
    slots_.push_back(slot);
  }
}

void Pipeline::take_output(std::string& bytes) {
  if (bytes.capacity() > kKeptOutput) bytes = std::string();
  bytes.clear();
  bytes.swap(output_);
}

void Pipeline::write(Slot& slot) {
  const Command& command = *slot.command;
  const std::size_t before = output_.size();
  slot.begin = written_;
  slot.ignored = slot.asking ? 1 : 0;
  if (slot.asking) output_.append(kAsking);
  if (slot.form == Form::kModule) {
    output_.append(command.for_module);
    written_ += output_.size() - before;
    return;
  }
  if (slot.form == Form::kPlain) {
    append_size('*', command.elements, output_);
  } else {
    append_size('*', command.elements + 2, output_);
    output_.append(slot.form == Form::kText ? kEval : kEvalSha);
    append_element(slot.form == Form::kText ? command.script->text : command.script->sha1, output_);
  }
  output_.append(command.tail);
  written_ += output_.size() - before;
}

Pipeline::Event Pipeline::next(ReplyReader& reader) {
  while (true) {
    const ReplyReader::Progress progress = reader.next();
    if (progress == ReplyReader::Progress::kMore) return {};
    if (progress == ReplyReader::Progress::kBad)
      return {.kind = Kind::kBroken, .why = reader.why()};
    const redisReply& reply = reader.reply();
    const bool error = reply.type == REDIS_REPLY_ERROR;
    if (!open_ || slots_.empty()) {
      return {.kind = Kind::kBroken,
              .why = error ? std::string_view(reply.str, reply.len)
                           : "the server sent a reply without a command"};
    }
    if (slots_.front().ignored > 0) {
      --slots_.front().ignored;
      continue;
    }
    Command* const command_in_front = slots_.front().command;
    const bool is_by_module = slots_.front().form == Form::kModule;
    const bool is_refused = is_by_module && note_module(reply);
    if (command_in_front != nullptr) command_in_front->is_by_module = is_by_module;
    if (!error && command_in_front != nullptr && !command_in_front->expects(reply)) {
      return {.kind = Kind::kBroken,
              .why = "the server sent a reply that does not fit its command"};
    }
    Slot slot = slots_.pop_front();
    ++first_;
    if (dead_ > 0) --dead_;
    if (slot.command == nullptr) continue;
    --live_;
    Command* const command = slot.command;
    if (is_refused) {
      slot.form = Form::kHash;
      push(slot);
      continue;
    }
    if (!error) return {.kind = Kind::kAnswer, .command = command, .reply = &reply};
    if (slot.form == Form::kPlain || slot.form == Form::kModule || slot.form == Form::kText ||
        !says_unknown_script(reply)) {
      return {.kind = Kind::kError, .command = command, .reply = &reply};
    }
    if (send_anew(slot)) return {.kind = Kind::kScript, .command = command};
  }
}

bool Pipeline::send_anew(Slot slot) {
  const Script* const script = slot.command->script;
  const bool hash = slot.form == Form::kHash && text_is_under_way(script);
  slot.form = hash ? Form::kHashAgain : Form::kText;
  if (!hash) texts_.push_back({.script = script, .number = first_ + slots_.size()});
  push(slot);
  return !hash;
}

bool Pipeline::text_is_under_way(const Script* script) noexcept {
  std::erase_if(texts_, [this](const SentText& sent) { return sent.number < first_; });
  return std::any_of(texts_.begin(), texts_.end(),
                     [script](const SentText& sent) { return sent.script == script; });
}

void Pipeline::expire(Time now, std::vector<Ended>& ended) {
  for (std::size_t i = dead_; i < slots_.size() && live_ > 0; ++i) {
    Slot& slot = slots_[i];
    const bool due = slot.command != nullptr && slot.deadline <= now;
    if (due) {
      ended.push_back({.command = slot.command, .sent = open_});  // its bytes will leave
      slot.command = nullptr;
      --live_;
    }
    if (slot.command == nullptr && i == dead_) ++dead_;
    if (slot.command != nullptr && !due && !unordered_) break;
  }
}

std::optional<Pipeline::Time> Pipeline::next_deadline() const noexcept {
  std::optional<Time> first;
  for (std::size_t i = dead_; i < slots_.size() && live_ > 0; ++i) {
    const Slot& slot = slots_[i];
    if (slot.command == nullptr) continue;
    if (!first || slot.deadline < *first) first = slot.deadline;
    if (!unordered_) break;
  }
  return first;
}

void Pipeline::abandon(std::vector<Ended>& ended) {
  while (!slots_.empty()) {
    const Slot slot = slots_.pop_front();
    ++first_;
    if (slot.command != nullptr) ended.push_back({slot.command, was_sent(slot)});
  }
  live_ = 0;
  dead_ = 0;
  texts_.clear();
  output_.clear();
}

}  // namespace sluice::redis
